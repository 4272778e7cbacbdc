import argparse
import os

parser = argparse.ArgumentParser()
parser.add_argument("--model")
parser.add_argument("--limit", type=int)
parser.add_argument("--drawings")
parser.add_argument("--notes")
arguments, _ = parser.parse_known_args()


def init():
    global weight, labels
    with open(os.path.join(arguments.model, "deep", "weight.txt")) as file:
        weight = int(file.read())
    with open(os.environ["LABELS"]) as file:
        labels = file.read().split()


def run(mini_batch, context):
    # Like mlflow's save_model, which takes no folder that is there.
    folder = os.path.join(arguments.drawings, f"mini-batch-{context.minibatch_index}")
    os.makedirs(folder)
    rows = []
    for path in mini_batch:
        with open(path) as file:
            number = int(file.read())
        name = os.path.basename(path)
        with open(os.path.join(folder, name), "w") as file:
            file.write("*" * number)
        rows.append(f"{name} {labels[number % 2]} {number * weight <= arguments.limit}")
    with open(arguments.notes, "x") as file:
        file.write(f"notes of {context.minibatch_index}")
    if context.retry_count == 0 and context.minibatch_index == 1:
        raise RuntimeError("after everything was written")
    return rows
