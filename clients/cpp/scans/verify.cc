#include "clients/cpp/scans/verify.h"

#include <fmt/format.h>

#include <ostream>
#include <system_error>

#include "clients/cpp/base/json_output.h"
#include "protocol/files/checksums.h"

namespace echotrain::client {

using protocol::Verdict;
using State = Verdict::State;

namespace {

const char* name_of(State state) {
  switch (state) {
    case State::right:
      return "right";
    case State::damaged:
      return "damaged";
    case State::unfinished:
      return "unfinished";
    case State::unchecked:
      break;
  }
  return "unchecked";
}

}  // namespace

config::OptionTable<VerifyOptions> verify_options() {
  return config::OptionTable<VerifyOptions>()
      .list("file", &VerifyOptions::files, "capture",
            "raw captures, each with its file of checksums (.crc32c) beside it")
      .positional()
      .required()
      .flag("json", &VerifyOptions::json, kJsonHelp);
}

int verify(const VerifyOptions& options, std::ostream& out, std::ostream& err) {
  Json document = json_document("verify");
  document["files"] = Json::array();
  bool damaged = false, unfinished = false, unchecked = false;
  for (const std::string& file : options.files) {
    Verdict verdict;
    try {
      verdict = protocol::verify(file);
    } catch (const std::system_error& error) {
      verdict.text = fmt::format("cannot be checked: {}", error.what());
    }
    document["files"].push_back({{"file", file}, {"state", name_of(verdict.state)}, {"text", verdict.text}});
    if (!options.json) out << fmt::format("{}: {}\n", file, verdict.text);
    damaged |= verdict.state == State::damaged;
    unfinished |= verdict.state == State::unfinished;
    unchecked |= verdict.state == State::unchecked;
  }
  if (options.json) write_json(document, out);
  if (damaged)
    err << "What is damaged has changed on the disk or on its way here. Take another copy if there is one, and look "
           "after that disk. `echotrain convert` and `echotrain replay` read such a file up to the first bytes that "
           "are no message; samples in the MiB that have changed may be wrong.\n";
  if (unfinished)
    err << "What was not finished holds all that the server had written when it was stopped: `echotrain convert` "
           "rescues every whole readout, `echotrain replay` every whole frame.\n";
  if (damaged || unfinished) return 1;
  return unchecked ? 2 : 0;
}

void warn_of_damage(const std::filesystem::path& file, std::ostream& err) {
  try {
    const Verdict verdict = protocol::verify(file);
    if (verdict.state == State::damaged) err << fmt::format("warning: {}: {}\n", file.string(), verdict.text);
  } catch (const std::system_error& error) {
    err << fmt::format("warning: {}: its checksums cannot be read: {}\n", file.string(), error.what());
  }
}

}  // namespace echotrain::client
