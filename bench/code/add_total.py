"""The entry script of W3: one more column."""


def run(mini_batch):
    mini_batch["total"] = mini_batch["price"] * mini_batch["qty"]
    return mini_batch
