import os
import pickle


def init():
    global model
    with open(os.path.join(os.environ["AZUREML_MODEL_DIR"], "model.pkl"), "rb") as opened:
        model = pickle.load(opened)


def run(mini_batch):
    results = []
    for path in mini_batch:
        with open(path) as opened:
            words = opened.read().split()
        results.append([os.path.basename(path), {word: model.get(word, 0) for word in words}])
    return results
