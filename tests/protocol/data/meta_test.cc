#include "protocol/data/meta.h"

#include <gtest/gtest.h>
#include <ismrmrd/meta.h>

#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace echotrain::protocol {
namespace {

using Values = std::map<std::string, std::vector<std::string>>;

/// What libismrmrd writes, with the line that declares the encoding.
std::string by_libismrmrd(const Values& values) {
  ISMRMRD::MetaContainer meta;
  for (const auto& [name, of_name] : values)
    for (const std::string& value : of_name) meta.append(name.c_str(), value.c_str());
  std::ostringstream text;
  ISMRMRD::serialize(meta, text);
  const std::string xml = text.str();
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" + xml.substr(xml.find("<ismrmrdMeta"));
}

TEST(MetaTest, DocumentsAreThoseOfLibismrmrd) {
  std::string all;
  for (int c = 1; c < 0x80; ++c) all += static_cast<char>(c);
  const Values values = {{"DataRole", {"Image"}},
                         {"ImageRowDir", {"0", "0.5", "-1e-07"}},
                         {"a <name> & \"another\"", {"1 < 2 > 0 && 'x'", "]]>", "\xc3\xa4 \xe2\x82\xac"}},
                         {all, {all, "", " ", "\n\t"}},
                         {"echotrain_frame", {"18446744073709551615"}}};
  EXPECT_EQ(meta_text(values), by_libismrmrd(values));
}

TEST(MetaTest, NothingFollowsANul) {
  EXPECT_EQ(meta_text({{"name", {std::string("ab\0c", 4)}}}), by_libismrmrd({{"name", {"ab"}}}));
}

TEST(MetaTest, WhatIsWrittenIsRead) {
  const Values values = {{"a", {"1", "<2>"}}, {"b&", {"3"}}};
  EXPECT_EQ(meta_values(meta_text(values)),
            (std::vector<std::pair<std::string, std::string>>{{"a", "1"}, {"a", "<2>"}, {"b&", "3"}}));
}

}  // namespace
}  // namespace echotrain::protocol
