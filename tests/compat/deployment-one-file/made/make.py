import pickle

with open("made/model.pkl", "wb") as file:
    pickle.dump({"good": 1, "bad": -1}, file)
