#!/usr/bin/env python3
"""What tools/check_names.py takes for a definition, and which names it calls clashes."""
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from check_names import clashes, definitions  # noqa: E402


def names(text):
    return [name for name, _, _ in definitions(text)]


class Definitions(unittest.TestCase):
    def test_constants_of_one_line(self):
        self.assertEqual(names("constexpr int kOne = kZero + 1, kTwo[2] = {1, 2}, kThree{3};"), ["kOne", "kTwo", "kThree"])
        self.assertEqual(names("constexpr size_t kBytes = size_t{10} << 20;"), ["kBytes"])
        self.assertEqual(names("const std::map<int, float> table = {{1, 2}};\nint last;"), ["table", "last"])

    def test_types(self):
        self.assertEqual(names("struct alignas(16) Share { int inner; };\nenum class Kind : uint8_t { a, b };"), ["Share", "Kind"])
        self.assertEqual(names("template <class T, class S = Row<T>>\nclass Walk { void step() {} };"), ["Walk"])
        self.assertEqual(names("using Sums = float[4];\nusing gpu::Queue;"), ["Sums"])

    def test_what_is_a_type(self):
        self.assertEqual(definitions("struct Row {};\nusing Line = Row;\nint row() { return 1; }"),
                         [("Row", 1, True), ("Line", 2, False), ("row", 3, False)])

    def test_functions(self):
        self.assertEqual(names("__global__ void __launch_bounds__(kThreads, 2)\n  add_kernel(int n) { int inner = 1; }"),
                         ["add_kernel"])
        self.assertEqual(names("template <class T>\nint most(T a, T b = {}) { return a < b ? b : a; }"), ["most"])

    def test_declarations_and_members_are_none(self):
        self.assertEqual(names("struct Later;\nvoid later(int n);\nextern int there;"), [])
        self.assertEqual(names("Ops::Ops(int n) : n_{n}, m_(n) { run(); }\nvoid Ops::run() {}\nint Ops::count = 0;"), [])
        self.assertEqual(names("template <>\nstruct Sums<int> { int s; };"), [])

    def test_namespaces_comments_and_directives(self):
        text = '#define TWICE(x) \\\n  int twice_##x;\nnamespace a::b {\nnamespace {\n// int no;\nint yes = 1; /* int no */\n}\n}'
        self.assertEqual(definitions(text), [("yes", 6, False)])
        self.assertEqual(names("const char* text = \"{\";\nconstexpr int kMany = 10'000;"), ["text", "kMany"])


class Clashes(unittest.TestCase):
    def test_two_files(self):
        found = clashes({"src/gpu/a.cu": "constexpr int kStages = 2;", "src/gpu/b.cu": "\nconstexpr int kStages = 3;"})
        self.assertEqual(found, ["kStages is defined in src/gpu/a.cu:1 and src/gpu/b.cu:2; "
                                 "wanted: one definition, or a telling name each"])

    def test_types_of_two_folders(self):
        found = clashes({"src/engine/a.h": "class Budget {};", "src/grammar/b.cpp": "namespace {\nstruct Budget {};\n}"})
        self.assertEqual(found, ["Budget is defined in src/engine/a.h:1 and src/grammar/b.cpp:2; "
                                 "wanted: one definition, or a telling name each"])

    def test_outside_of_the_gpu_only_types_count(self):
        self.assertEqual(clashes({"src/net/a.cpp": "int trim() { return 1; }\nusing Clock = int;",
                                  "src/cpu/b.cpp": "int trim() { return 2; }\nusing Clock = int;"}), [])

    def test_members_count_where_the_word_fits_everything(self):
        inner = "class A {\n  struct %s {};\n};"
        self.assertEqual(clashes({"src/net/a.h": inner % "Kind", "src/cpu/b.h": inner.replace("A", "B") % "Kind"}), [])
        found = clashes({"src/net/a.h": inner % "Entry", "src/cpu/b.h": "void f() {\n  enum class Entry : int { a };\n}"})
        self.assertEqual(found, ["Entry is defined in src/cpu/b.h:2 and src/net/a.h:2; "
                                 "wanted: one definition, or a telling name each"])

    def test_parameters_of_templates_and_uses_are_no_members(self):
        self.assertEqual(clashes({"src/net/a.h": "template <class Row>\nvoid f(Row r) { r(); }", "src/cpu/b.h": "struct Row {};",
                                  "src/cpu/c.cpp": "struct Row make(int a);\nclass Row* row;"}), [])

    def test_files_that_belong_together(self):
        self.assertEqual(clashes({"src/gpu/a.h": "inline int f(int) { return 1; }", "src/gpu/a.cu": "int f() { return 2; }"}), [])
        self.assertEqual(clashes({"src/gpu/x/nvidia/gemm.cpp": "int f() { return 1; }",
                                  "src/gpu/x/amd/gemm.cpp": "int f() { return 2; }"}), [])


if __name__ == "__main__":
    unittest.main()
