#!/usr/bin/env python3
"""Which comments tools/check_comments.py takes for those of functions, and which of them it refuses."""
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from check_comments import comments, problems_of  # noqa: E402


class Comments(unittest.TestCase):
    def test_functions_members_and_kernels(self):
        text = "namespace a {\n// One,\n// two.\nvoid f(int n);\nclass B {\n public:\n  // Three.\n  explicit B(int n = 1) : n_{n} {}\n"
        text += "  // Four.\n  bool operator==(const B&) const = default;\n  // Five.\n  B& operator+=(B b) { return *this; }\n};\n"
        text += "// Six.\ntemplate <class T>\n__global__ void __launch_bounds__(8) add(T t) {\n  // Inside.\n  run();\n}\n}\n"
        self.assertEqual(comments(text), [(2, "One, two."), (7, "Three."), (11, "Five."), (14, "Six.")])

    def test_other_declarations(self):
        text = "// A.\nstruct A {\n  // B.\n  std::function<void(int)> run;\n  // C.\n  int n = f(1), m{2};\n  // D.\n  void (*call)(int);\n};\n"
        text += "// E.\nusing F = void (*)(int);\n// G.\nstatic_assert(sizeof(A) == 1);\n// H.\nenum class H { a = (1 << 2) };\n"
        text += "// I.\nconstexpr int kRows[] = {f(1)};\n// J.\nA(const A&) = delete;\n"
        self.assertEqual(comments(text), [])

    def test_a_comment_stands_directly_above(self):
        self.assertEqual(comments("// A.\n\nvoid f();\nint n;  // B.\nvoid g();\n"), [])


class Problems(unittest.TestCase):
    def check(self, comment, count):
        self.assertEqual(len(problems_of("a.h", f"// {comment}\nint f();\n")), count, comment)

    def test_a_verb_in_the_third_person(self):
        for comment in ("Returns the rows.", "Writes `a`.", "Re-acquires it.", "Does nothing."):
            self.check(comment, 0)

    def test_other_beginnings(self):
        for comment in ("Whether it is.", "The rows.", "Return the rows.", "`a`: a row.", "As f().", "Rows of it.", "Bytes."):
            self.check(comment, 1)

    def test_the_message(self):
        self.assertEqual(problems_of("a.h", "\n// The rows.\nint f();\n"),
                         ["a.h:2: 'The rows.'; wanted: a verb that says what the function does, such as Returns"])


if __name__ == "__main__":
    unittest.main()
