import pickle

with open("model/model.pkl", "wb") as file:
    pickle.dump({"age": 0.25, "pressure": -1.5}, file)
