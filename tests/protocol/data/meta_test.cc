#include "protocol/data/meta.h"

#include <gtest/gtest.h>
#include <ismrmrd/meta.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <pugixml.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/cpu_time.h"

namespace echotrain::protocol {
namespace {

using Values = std::map<std::string, std::vector<std::string>>;

/// Returns the document that libismrmrd writes, with the line that declares the encoding.
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

// The walk over a value's siblings to the name takes 5 ns each: for each of 100,000 values 50 s, once 20 ms with the
// rest.
TEST(MetaTest, ANameBehindManyValuesIsLookedForOnce) {
  std::string text = "<ismrmrdMeta><meta>";
  for (int i = 0; i < 100000; ++i) text += "<value/>";
  const double before = thread_cpu_seconds();
  EXPECT_EQ(meta_values(text + "<name>a</name></meta></ismrmrdMeta>").size(), 100000u);
  EXPECT_LT(thread_cpu_seconds() - before, 5);
}

TEST(MetaTest, LongNamesAreLeftOut) {
  const std::string longest(kLongestMetaName, 'n');
  EXPECT_EQ(meta_values(meta_text({{longest, {"1"}}, {longest + "n", {"2"}}})),
            (std::vector<std::pair<std::string, std::string>>{{longest, "1"}}));
}

/// The bytes that pugixml takes of the allocator, and the most at a time.
std::size_t tree_bytes = 0, most_tree_bytes = 0;

void* take_counted(std::size_t bytes) {
  auto* const begin = static_cast<std::size_t*>(std::malloc(bytes + 16));
  if (begin == nullptr) return nullptr;
  *begin = bytes;
  tree_bytes += bytes;
  most_tree_bytes = std::max(most_tree_bytes, tree_bytes);
  return begin + 2;
}

void give_counted(void* memory) {
  if (memory == nullptr) return;
  auto* const begin = static_cast<std::size_t*>(memory) - 2;
  tree_bytes -= *begin;
  std::free(begin);
}

TEST(MetaTest, WhatReadingTakesIsTold) {
  const auto many = [](const std::string& part) {
    std::string text = "<ismrmrdMeta>";
    for (int i = 0; i < 20000; ++i) text += part;
    return text + "</ismrmrdMeta>";
  };
  const auto take = pugi::get_memory_allocation_function();
  const auto give = pugi::get_memory_deallocation_function();
  for (const std::string part : {"<meta><name>a</name><value>b</value></meta>", "<value/>x", "<a b='' c='' d=''/>"}) {
    const std::string text = many(part);
    pugi::set_memory_management_functions(take_counted, give_counted);
    most_tree_bytes = 0;
    for_each_meta(text, [](std::string_view, std::string_view) {});
    pugi::set_memory_management_functions(take, give);
    EXPECT_EQ(tree_bytes, 0u);
    EXPECT_GT(most_tree_bytes, text.size()) << part;
    EXPECT_LE(most_tree_bytes, bytes_to_read_meta(text)) << part;
    EXPECT_GE(4 * most_tree_bytes, bytes_to_read_meta(text)) << part << ": others' scans would be refused";
  }
}

}  // namespace
}  // namespace echotrain::protocol
