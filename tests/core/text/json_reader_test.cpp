#include "core/text/json_reader.h"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/core/error_of.h"

namespace tandem {
namespace {

using testing::error_of;

std::string syntax_error(const std::string& text) {
  return error_of([&text] { const JsonFile file("f.json", text); });
}

// ---- Syntax ----

TEST(JsonSyntax, SaysWhatWasExpectedAndFound) {
  EXPECT_EQ(syntax_error("{\n  \"a\": 1\n  \"b\": 2\n}"),
            "f.json:3:3: error: expected ',' or '}', found a string\n"
            "  \"b\": 2\n"
            "  ^~~");
  EXPECT_EQ(syntax_error("{\"a\": 1,}"),
            "f.json:1:9: error: expected a key in double quotes, found '}'\n"
            "{\"a\": 1,}\n"
            "        ^ no comma after the last one");
  EXPECT_EQ(syntax_error("[1, 2, ]"),
            "f.json:1:8: error: expected a value, found ']'\n"
            "[1, 2, ]\n"
            "       ^ no comma after the last one");
  EXPECT_EQ(syntax_error("{a: 1}"),
            "f.json:1:2: error: expected a key in double quotes or '}', found 'a'\n"
            "{a: 1}\n"
            " ^");
  EXPECT_EQ(syntax_error("{'a': 1}"),
            "f.json:1:2: error: expected a key in double quotes or '}', found '''\n"
            "{'a': 1}\n"
            " ^ strings take double quotes");
  EXPECT_EQ(syntax_error("{\"a\" 1}"),
            "f.json:1:6: error: expected ':' after the key, found '1'\n"
            "{\"a\" 1}\n"
            "     ^");
  EXPECT_EQ(syntax_error("{\"a\": True}"),
            "f.json:1:7: error: expected a value, found 'True'\n"
            "{\"a\": True}\n"
            "      ^~~~");
  EXPECT_EQ(syntax_error("{\"a\": 1x}"),
            "f.json:1:8: error: expected ',' or '}', found 'x'\n"
            "{\"a\": 1x}\n"
            "       ^");
  EXPECT_EQ(syntax_error("{\"a\": 01}"),
            "f.json:1:8: error: expected ',' or '}', found '1'\n"
            "{\"a\": 01}\n"
            "       ^");
  EXPECT_EQ(syntax_error("{} {}"),
            "f.json:1:4: error: expected the end of the file, found '{'\n"
            "{} {}\n"
            "   ^");
  EXPECT_EQ(syntax_error("[1}"),
            "f.json:1:3: error: expected ',' or ']', found '}'\n"
            "[1}\n"
            "  ^");
  EXPECT_EQ(syntax_error("{\"a\": ä}"),
            "f.json:1:7: error: expected a value, found a character outside a string\n"
            "{\"a\": ä}\n"
            "      ^");
}

TEST(JsonSyntax, EndsTooEarly) {
  EXPECT_EQ(syntax_error(""), "f.json:1:1: error: expected an object, found the end of the file");
  EXPECT_EQ(syntax_error("// nothing\n"),
            "f.json:2:1: error: expected an object, found the end of the file");
  EXPECT_EQ(syntax_error("{\"a\": [1, 2"),
            "f.json:1:12: error: expected ',' or ']', found the end of the file\n"
            "{\"a\": [1, 2\n"
            "           ^");
  EXPECT_EQ(syntax_error("{\"a\":"),
            "f.json:1:6: error: expected a value, found the end of the file\n"
            "{\"a\":\n"
            "     ^");
  EXPECT_EQ(
      syntax_error("{ /* open"),
      "f.json:1:10: error: expected a key in double quotes or '}', found the end of the file\n"
      "{ /* open\n"
      "         ^ a comment is not closed");
}

TEST(JsonSyntax, MalformedTokensSayWhy) {
  EXPECT_EQ(syntax_error("{\"a\": \"x"),
            "f.json:1:7: error: malformed string: missing closing quote\n"
            "{\"a\": \"x\n"
            "      ^~");
  EXPECT_EQ(syntax_error("{\"a\": \"\\q\"}"),
            "f.json:1:7: error: malformed string: forbidden character after backslash\n"
            "{\"a\": \"\\q\"}\n"
            "      ^~~");
  EXPECT_EQ(syntax_error("{\"a\": -}"),
            "f.json:1:7: error: malformed number: expected digit after '-'\n"
            "{\"a\": -}\n"
            "      ^");
  EXPECT_EQ(syntax_error("{\"a\": 1.e5}"),
            "f.json:1:7: error: malformed number: expected digit after '.'\n"
            "{\"a\": 1.e5}\n"
            "      ^~~~");
  EXPECT_EQ(syntax_error("{\"a\": /1}"),
            "f.json:1:7: error: malformed comment\n"
            "{\"a\": /1}\n"
            "      ^ // to the line's end");
}

TEST(JsonSyntax, NumbersBeyondADoubleAreNotInfinity) {
  EXPECT_EQ(syntax_error("{\"a\": [1, -1e999]}"),
            "f.json:1:11: error: expected a number of at most 1.8e308, found -1e999\n"
            "{\"a\": [1, -1e999]}\n"
            "          ^~~~~~");
}

TEST(JsonSyntax, EncodingIsUtf8WithoutNul) {
  EXPECT_EQ(syntax_error("{\"a\": \"\xFF\"}"),
            "f.json:1:8: error: expected UTF-8, found the byte 0xFF\n"
            "{\"a\": \"?\"}\n"
            "       ^");
  EXPECT_EQ(syntax_error("{} // \xC3"),
            "f.json:1:7: error: expected UTF-8, found the byte 0xC3\n"
            "{} // ?\n"
            "      ^");
  EXPECT_EQ(syntax_error(std::string("{}\0{}", 5)),
            "f.json:1:3: error: expected text, found a NUL byte\n"
            "{}?{}\n"
            "  ^");
  EXPECT_EQ(syntax_error("\xEF\xBB\xBF{}"),
            "f.json:1:1: error: starts with a byte order mark\n"
            "\xEF\xBB\xBF{}\n"
            "^ save it as UTF-8 without one");
  EXPECT_EQ(syntax_error(std::string("\xFF\xFE{\0}\0", 6)),
            "f.json:1:1: error: starts with a byte order mark\n"
            "??{?}?\n"
            "^ save it as UTF-8 without one");
}

TEST(JsonSyntax, DepthAndSizeAreLimited) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_NO_THROW(JsonFile("f.json", nested(kDeepestJson)));
  const std::string line = nested(kDeepestJson + 1);
  EXPECT_EQ(syntax_error(line),
            "f.json:1:65: error: expected objects and arrays nested at most 64 deep, found more\n"
            "…" +
                line.substr(16, 96) + "…\n" + std::string(49, ' ') + "^");
  EXPECT_EQ(syntax_error(std::string(10'000'000, '[')),
            "f.json:1:65: error: expected objects and arrays nested at most 64 deep, found more");
  EXPECT_EQ(syntax_error(std::string(kLargestJson + 1, ' ')),
            "f.json: error: larger than 16.0 MiB, the limit here");
}

TEST(JsonSyntax, TakesCommentsOfBothKinds) {
  JsonFile file("f.json", "// \" {\n{\"a\"/**/:/* , */1//x\n, \"b\": true//}\n}// end");
  EXPECT_EQ(file.root()["a"].integer(0, 9), 1);
  EXPECT_TRUE(file.root()["b"].boolean());
  EXPECT_EQ(file.diagnostics(), 0U);
}

/// As the parser has it: at a carriage return, too, whether a line feed follows or not.
TEST(JsonSyntax, CommentsEndWithTheLine) {
  for (const std::string end : {"\r", "\n", "\r\n"}) {
    JsonFile file("f.json", "{\"a\": -2//, \"b\": 9" + end + ", \"c\": [1]}");
    EXPECT_EQ(file.root()["a"].integer(-5, 5), -2);
    EXPECT_EQ(file.root()["c"].array().size(), 1U);
    EXPECT_FALSE(file.root().has("b"));
  }
}

// ---- Getters ----

enum class Colour : std::uint8_t { red, green, blue };
std::string_view name(Colour colour) {
  return colour == Colour::red ? "red" : colour == Colour::green ? "green" : "blue";
}

/// What `read` diagnoses when it is given the value `text`.
template <class Read>
std::string diagnostic(const std::string& text, Read read) {
  JsonFile file("f.json", "{\"k\": " + text + "}");
  read(file.root()["k"]);
  std::string message = error_of([&file] { file.finish(); });
  return message.substr(0, message.find('\n'));
}

TEST(JsonReaderTest, ReadsEachKind) {
  JsonFile file("f.json", R"({
    "integer": -12, "number": 2.5e3, "flag": false, "text": "a\u00fc\"\\", "colour": "blue",
    "time_ns": 86400000000000, "size_bytes": 1152921504606846976, "list": [1, [2]], "x-other": {}
  })");
  const JsonReader root = file.root();
  EXPECT_TRUE(root.object(
      {"integer", "number", "flag", "text", "colour", "time_ns", "size_bytes", "list"}));
  EXPECT_EQ(root["integer"].integer<std::int32_t>(-12, 5), -12);
  EXPECT_EQ(root["number"].number(0.0), 2500.0);
  EXPECT_FALSE(root["flag"].boolean());
  EXPECT_EQ(root["text"].string(), "aü\"\\");
  EXPECT_EQ(root["colour"].one_of<Colour>(3), Colour::blue);
  EXPECT_EQ(root["time_ns"].duration(), std::chrono::hours(24));
  EXPECT_EQ(root["size_bytes"].bytes(), Bytes{1} << 60);
  ASSERT_EQ(root["list"].array().size(), 2U);
  EXPECT_EQ(root["list"].array()[1].array()[0].integer(0, 9), 2);
  EXPECT_TRUE(root.has("flag"));
  EXPECT_FALSE(root.has("nothing"));
  EXPECT_TRUE(root.optional("nothing").absent());
  EXPECT_EQ(file.diagnostics(), 0U);
  EXPECT_NO_THROW(file.finish());
}

TEST(JsonReaderTest, IntegersAreNeverConverted) {
  const auto read = [](const JsonReader& reader) {
    EXPECT_EQ(reader.integer<std::int32_t>(1, 10'000), 1);
  };
  const std::string expected = "f.json:1:7: error: /k: expected an integer from 1 to 10000, found ";
  for (const char* text : {"3.0", "1e2", "\"3\"", "0", "-5", "10001", "true", "null",
                           "99999999999999999999", "-9223372036854775809", "[3]"}) {
    EXPECT_EQ(diagnostic(text, read), expected + text);
  }
  EXPECT_EQ(diagnostic("{\"a\": 1}", read), expected + "an object");
  EXPECT_EQ(diagnostic("[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]", read),
            expected + "an array");
  EXPECT_EQ(diagnostic("\"" + std::string(100, 'x') + "\"", read),
            expected + "\"" + std::string(47, 'x') + "…");
  EXPECT_EQ(diagnostic("-1",
                       [](const JsonReader& reader) {
                         reader.integer(0, std::numeric_limits<std::int64_t>::max());
                       }),
            "f.json:1:7: error: /k: expected an integer >= 0, found -1");
}

TEST(JsonReaderTest, OtherKindsSayWhatTheyExpect) {
  const std::string at = "f.json:1:7: error: /k: expected ";
  EXPECT_EQ(diagnostic("-0.5", [](const JsonReader& reader) { reader.number(0.0); }),
            at + "a number >= 0, found -0.5");
  EXPECT_EQ(diagnostic("1e-999", [](const JsonReader& reader) { reader.number(0.0); }),
            at + "a number >= 0, found 1e-999");
  EXPECT_EQ(diagnostic("\"1\"", [](const JsonReader& reader) { reader.number(0.0); }),
            at + "a number >= 0, found \"1\"");
  EXPECT_EQ(diagnostic("1", [](const JsonReader& reader) { reader.boolean(); }),
            at + "true or false, found 1");
  EXPECT_EQ(diagnostic("1", [](const JsonReader& reader) { reader.string(); }),
            at + "a string, found 1");
  EXPECT_EQ(diagnostic("\"a\\u0000b\"", [](const JsonReader& reader) { reader.string(); }),
            at + "a string without U+0000, found \"a\\u0000b\"");
  EXPECT_EQ(diagnostic("\"a\\nb\"", [](const JsonReader& reader) { reader.line(); }),
            at + "a string without line breaks, found \"a\\nb\"");
  EXPECT_EQ(diagnostic("\"a b\"", [](const JsonReader& reader) { reader.line(); }),
            "nothing was thrown");
  EXPECT_EQ(diagnostic("{}", [](const JsonReader& reader) { reader.array(); }),
            at + "an array, found an object");
  EXPECT_EQ(diagnostic("[1]", [](const JsonReader& reader) { EXPECT_FALSE(reader.object({})); }),
            at + "an object, found [1]");
  EXPECT_EQ(diagnostic("86400000000001", [](const JsonReader& reader) { reader.duration(); }),
            at + "an integer from 0 to 86400000000000, found 86400000000001");
  EXPECT_EQ(diagnostic("-1", [](const JsonReader& reader) { reader.bytes(); }),
            at + "an integer from 0 to 1152921504606846976, found -1");
}

TEST(JsonReaderTest, NamesSuggestTheNearest) {
  const auto read = [](const JsonReader& reader) {
    EXPECT_EQ(reader.one_of<Colour>(3), Colour::red);
  };
  const std::string expected =
      "f.json:1:7: error: /k: expected \"red\", \"green\" or \"blue\", found ";
  EXPECT_EQ(diagnostic("\"grene\"", read), expected + "\"grene\"; did you mean \"green\"?");
  EXPECT_EQ(diagnostic("\"violet\"", read), expected + "\"violet\"");
  EXPECT_EQ(diagnostic("2", read), expected + "2");
}

TEST(JsonReaderTest, ReportsEveryMistakeInOrder) {
  JsonFile file("f.json",
                "{\n"
                "  \"widht\": 3,\n"
                "  \"depth\": 0,\n"
                "  \"x-note\": \"fine\",\n"
                "  \"depth\": 4,\n"
                "  \"in/side\": {\"a\": 1, \"a\": 2, \"b~\": 3}\n"
                "}\n");
  const JsonReader root = file.root();
  root.object({"width", "depth", "in/side"});
  EXPECT_EQ(root["depth"].integer(1, 9), 1);
  EXPECT_TRUE(root["width"].absent());
  root["in/side"].object({"a"});
  EXPECT_EQ(error_of([&file] { file.finish(); }),
            "f.json:1:1: error: missing key \"width\"\n"
            "{\n"
            "^\n"
            "f.json:2:3: error: /widht: unknown key \"widht\"; did you mean \"width\"?\n"
            "  \"widht\": 3,\n"
            "  ^~~~~~~\n"
            "f.json:3:12: error: /depth: expected an integer from 1 to 9, found 0\n"
            "  \"depth\": 0,\n"
            "           ^\n"
            "f.json:5:3: error: /depth: duplicate key \"depth\"; the one before is on line 3\n"
            "  \"depth\": 4,\n"
            "  ^~~~~~~\n"
            "f.json:6:23: error: /in~1side/a: duplicate key \"a\"; the one before is on line 6\n"
            "  \"in/side\": {\"a\": 1, \"a\": 2, \"b~\": 3}\n"
            "                      ^~~\n"
            "f.json:6:31: error: /in~1side/b~0: unknown key \"b~\"\n"
            "  \"in/side\": {\"a\": 1, \"a\": 2, \"b~\": 3}\n"
            "                              ^~~~");
}

TEST(JsonReaderTest, AnEscapedKeyIsTheSameKey) {
  JsonFile file("f.json", R"({"\u0061": 1, "a": 2})");
  file.root().object({"a"});
  EXPECT_EQ(file.root()["a"].integer(0, 9), 1);
  EXPECT_EQ(error_of([&file] { file.finish(); }),
            "f.json:1:15: error: /a: duplicate key \"a\"; the one before is on line 1\n"
            "{\"\\u0061\": 1, \"a\": 2}\n"
            "              ^~~");
}

TEST(JsonReaderTest, AbsentReadersAreSilent) {
  JsonFile file("f.json", "[]");
  const JsonReader absent = file.root().optional("k");
  EXPECT_EQ(absent["deeper"].integer(3, 4), 3);
  EXPECT_EQ(absent.number(1.5), 1.5);
  EXPECT_EQ(absent.string(), "");
  EXPECT_EQ(absent.duration(), Duration{0});
  EXPECT_EQ(absent.one_of<Colour>(3), Colour::red);
  EXPECT_TRUE(absent.array().empty());
  EXPECT_FALSE(absent.boolean());
  EXPECT_FALSE(absent.object({"k"}));
  absent.expected("something");
  EXPECT_EQ(file.diagnostics(), 0U);
}

TEST(JsonReaderTest, ThousandsOfMistakesAreCounted) {
  std::string text = "{\"a\": 1";
  for (int i = 0; i < 20'000; ++i) text += ", \"a\": 1, \"b" + std::to_string(i) + "\": 1";
  JsonFile file("f.json", text + "}");
  file.root().object({"a"});
  try {
    file.finish();
    FAIL() << "nothing was thrown";
  } catch (const InputError& error) {
    ASSERT_EQ(error.diagnostics().size(), 101U);
    EXPECT_EQ(error.diagnostics().back().to_string(), "f.json: error: 39900 more errors");
  }
}

TEST(JsonReaderTest, Versions) {
  const auto read = [](const std::string& text) {
    JsonFile file("f.json", text);
    read_version(file.root(), 1);
    const std::string message = error_of([&file] { file.finish(); });
    return message.substr(0, message.find('\n'));
  };
  EXPECT_EQ(read("{\"version\": 1}"), "nothing was thrown");
  EXPECT_EQ(read("{}"), "f.json:1:1: error: missing key \"version\"");
  EXPECT_EQ(read("{\"version\": 2}"), "f.json:1:13: error: /version: expected version 1, found 2");
}

}  // namespace
}  // namespace tandem
