// The YAML reader is strict: every value knows its place, and every error says file:line:column and what to do.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

#include "config/node.h"

namespace echotrain::config {

/// Caps on what a file may hold: a config text comes from the network.
struct YamlLimits {
  std::size_t bytes = 1 << 20;
  int depth = 16;
  std::size_t nodes = 10000;
};

/// Parses one YAML document. Anchors, aliases, tags, several documents and duplicate keys are refused.
Node read_yaml(std::string_view text, const std::string& name, const YamlLimits& limits = {});
Node read_yaml_file(const std::filesystem::path& file, const YamlLimits& limits = {});

/// Returns the bytes of a file, at most `limit`; throws ConfigError when it is absent, not readable or larger.
std::string read_text_file(const std::filesystem::path& file, std::size_t limit);

}  // namespace echotrain::config
