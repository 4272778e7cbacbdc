"""The entry script of W1, W2 and W5: one row per path and nothing else, so that prs alone is measured."""


def run(mini_batch):
    return [path + ": ok" for path in mini_batch]
