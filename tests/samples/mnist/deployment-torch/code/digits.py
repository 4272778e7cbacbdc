"""What the scoring script imports from beside it."""


class Classifier:
    def __init__(self, path):
        with open(path) as weights:
            self.ink_of_a_digit = int(weights.read())

    def digit(self, picture):
        return picture.count("#") // self.ink_of_a_digit
