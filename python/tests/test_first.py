def test_paths_become_rows(start):
    process = start("def run(mini_batch):\n    return [p + ': ok' for p in mini_batch]\n").ready()
    outcome = process.run()
    assert (outcome.items, outcome.returned, outcome.error) == (2, 2, None)
    assert outcome.rows == b"/data/a: ok\n/data/b: ok\n"
    assert process.shutdown() is None
