#!/usr/bin/env python3
"""What tools/check_functions.py takes for a function, and which of them it calls too long."""
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from check_functions import LONGEST, functions, too_long  # noqa: E402

BODY = "  run();\n"


def of_lines(head, count, indent=""):
    """A function of `count` lines; `head` ends at its opening brace."""
    return head + "\n" + BODY * (count - head.count("\n") - 2) + indent + "}\n"


class Functions(unittest.TestCase):
    def test_templates_kernels_and_lambdas_count_in_full(self):
        kernel = "template <class T>\n__global__ void __launch_bounds__(128)\n    add(int n) {"
        self.assertEqual(functions("// A comment.\n" + of_lines(kernel, 9)), [("add", 2, 9)])
        self.assertEqual(functions("int most() {\n  const auto one = [&](int a) {\n    return a;\n  };\n  return one(1);\n}"),
                         [("most", 1, 6)])

    def test_members_are_found_at_any_depth(self):
        text = "namespace a {\nnamespace {\ntemplate <int k>\nstruct One : Base<k> {\n  class Inner {\n   public:\n"
        text += "    Inner(int n) : n_(n), m_{n} {\n      run();\n    }\n  };\n  int get() const override { return 1; }\n"
        text += "  bool operator()(int a) {\n    return a;\n  }\n};\n}\n}\n"
        self.assertEqual([(name, lines) for name, _, lines in functions(text)],
                         [("Inner", 3), ("get", 1), ("operator", 3)])

    def test_tables_types_and_declarations_are_none(self):
        self.assertEqual(functions("const Row rows[] = {\n  {1, f(2)},\n};\nenum class Kind {\n  a,\n  b,\n};\n"
                                   "void later(int n);\nint there = run([] {\n  return 1;\n});\nint set{f(1)};\n"), [])


class TooLong(unittest.TestCase):
    def test_the_bound(self):
        for suffix in ("cu", "h", "cpp"):
            self.assertEqual(too_long(f"a.{suffix}", of_lines("void walk() {", LONGEST)), [])
            problems = too_long(f"a.{suffix}", "\n" + of_lines("void walk() {", LONGEST + 1))
            self.assertEqual(len(problems), 1)
            self.assertTrue(problems[0].startswith(f"a.{suffix}:2: walk has {LONGEST + 1} lines"), problems[0])

    def test_a_long_member_is_refused_and_a_long_class_is_not(self):
        short = "  void one() {\n" + BODY * 40 + "  }\n  void two() {\n" + BODY * 40 + "  }\n"
        self.assertEqual(too_long("a.h", "class Long {\n" + short + "};\n"), [])
        self.assertEqual(len(too_long("a.h", "class Long {\n" + of_lines("  void one() {", 90, "  ") + "};\n")), 1)


if __name__ == "__main__":
    unittest.main()
