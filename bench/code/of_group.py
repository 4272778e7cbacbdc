"""One row for each group: its key, how many rows it has, and what they are worth."""


def run(mini_batch, context):
    [key] = context.partition_key_value.values()
    worth = int((mini_batch["price"] * mini_batch["qty"]).sum())
    return [f"{key} {len(mini_batch)} {worth}"]
