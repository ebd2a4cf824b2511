#!/usr/bin/env perl
# Writes src/grammar/unicode_tables.cpp from perl's own copy of the Unicode Character Database:
# tools/unicode_tables.pl > src/grammar/unicode_tables.cpp
use strict;
use warnings;
use Unicode::UCD qw(prop_invmap);

my @scripts = qw(Arabic Armenian Bengali Bopomofo Cyrillic Devanagari Ethiopic Georgian Greek Gujarati
  Gurmukhi Han Hangul Hebrew Hiragana Kannada Katakana Khmer Lao Latin Malayalam Myanmar Oriya
  Sinhala Tamil Telugu Thai Tibetan);

# A text as literals of a hundred characters, cut behind a space.
sub literals {
  my ($text) = @_;
  return join "\n", map { qq(    "$_") } $text =~ /(.{1,109}(?: |\z))/g;
}

my ($starts, $values) = prop_invmap("General_Category");
my $categories = join "", map { sprintf "%x:%s ", $starts->[$_], $values->[$_] } 0 .. $#$starts;
my ($from, $names) = prop_invmap("Script");
my %ranges;
for my $i (0 .. $#$from) {
  my $end = $i < $#$from ? $from->[$i + 1] - 1 : 0x10FFFF;
  push @{$ranges{$names->[$i]}}, sprintf("%x-%x ", $from->[$i], $end);
}
my $version = Unicode::UCD::UnicodeVersion();
print <<"HEAD";
// Written by tools/unicode_tables.pl from Unicode $version: change that.
#include "grammar/unicode_tables.h"

#include <iterator>

namespace fulmar {

// clang-format off
// Where a general category begins, and its name.
const std::string_view kUnicodeCategories =
HEAD
print literals($categories), ";\n\n";
print "const UnicodeScript kUnicodeScripts[] = {\n";
print join "", map { qq(    {"$_",\n) . literals(join "", @{$ranges{$_}}) . "},\n" } @scripts;
print "};\nconst size_t kUnicodeScriptCount = std::size(kUnicodeScripts);\n\n}  // namespace fulmar\n";
