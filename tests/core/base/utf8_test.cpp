#include "core/base/utf8.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(FirstInvalidUtf8, AcceptsWhatIsUtf8) {
  for (const std::string_view text :
       {"", "plain", "äß", "€", "😀", "\xC2\x80", "\xED\x9F\xBF", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_EQ(first_invalid_utf8(text), text.size()) << text;
  }
}

TEST(FirstInvalidUtf8, FindsTheFirstBadByte) {
  EXPECT_EQ(first_invalid_utf8("ab\xFF"), 2U);
  EXPECT_EQ(first_invalid_utf8("a\x80"), 1U);
  EXPECT_EQ(first_invalid_utf8("\xC3"), 0U);          // cut short
  EXPECT_EQ(first_invalid_utf8("\xC0\x80"), 0U);      // overlong
  EXPECT_EQ(first_invalid_utf8("\xE0\x80\x80"), 0U);  // overlong
  EXPECT_EQ(first_invalid_utf8("\xED\xA0\x80"), 0U);  // a surrogate
  EXPECT_EQ(first_invalid_utf8("\xF4\x90\x80\x80"), 0U);
  EXPECT_EQ(first_invalid_utf8("é\xE2\x82(x"), 2U);
}

TEST(Printable, KeepsWhatMayBeSeen) {
  for (const std::string_view text : {"", "plain", "süß, 漢字, 🙂", "two\nlines\tand a tab"})
    EXPECT_EQ(printable(text), text);
  EXPECT_EQ(printable_line("two\nlines\tand a tab"), "two\\u000alines\\u0009and a tab");
}

TEST(Printable, EscapesWhatATerminalObeys) {
  EXPECT_EQ(printable("\x1b[31m\x07\r\x7f"), "\\u001b[31m\\u0007\\u000d\\u007f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "2J"),
            "\\u009b2J");  // the same as ESC [ to some
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\u0000");
}

TEST(Printable, EscapesWhatTurnsTextAround) {
  EXPECT_EQ(printable("\u202e\u2066\u200f\u061c\u2028"), "\\u202e\\u2066\\u200f\\u061c\\u2028");
  EXPECT_EQ(printable("\u2027\u202f\u200d"), "\u2027\u202f\u200d");
}

TEST(Printable, EscapesBytesThatAreNoText) {
  EXPECT_EQ(printable("a\xff\xfe"), "a\\xff\\xfe");
  EXPECT_EQ(printable("\xc3"), "\\xc3");                    // cut off
  EXPECT_EQ(printable("\xc0\x9b"), "\\xc0\\x9b");           // overlong
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
}

}  // namespace
}  // namespace tandem
