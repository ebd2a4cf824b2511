"""Conversations whose answers show which turn a session's state has: turn 0, 2, ... tell a number, turn 1, 3, ... ask."""
import random

MERGED = ("\n\n", "User", "Assistant")  # one token each in the demo model; every other byte is one


def number_of(name, turn):
    return random.Random(f"{name}/{turn // 2}").randint(100, 999)


def prompt_of(name, turn):
    text = "Which number?" if turn % 2 else f"Remember {number_of(name, turn)}."
    return f"User: {text}\n\nAssistant:"


def likely_answer(name, turn):
    return str(number_of(name, turn)) if turn % 2 else "OK."


class Talk:
    """What the clients know of one session: its answers so far, and when each came."""

    def __init__(self, name):
        self.name = name
        self.answers, self.answered_at = [], []

    @property
    def turn(self):
        return len(self.answers)

    def add(self, answer, at):
        self.answers.append(answer)
        self.answered_at.append(at)

    def lengths(self):
        """Tokens of the state after 0, 1, ... turns, up to the one that may have been under way."""
        total, lengths = 0, [0]
        for turn in range(self.turn + 1):
            answer = self.answers[turn] if turn < self.turn else " " + likely_answer(self.name, turn)
            text = ("\n\n" if turn else "") + prompt_of(self.name, turn) + answer
            for merged in MERGED:
                text = text.replace(merged, "\0")
            total += len(text)
            lengths.append(total)
        return lengths

    def fall_back(self, kept, now):
        """Goes on from what the server has kept; what has survived once is no longer young."""
        likely = [" " + likely_answer(self.name, turn) for turn in range(self.turn, kept)]
        self.answers = (self.answers + likely)[:kept]
        self.answered_at = [now] * kept
