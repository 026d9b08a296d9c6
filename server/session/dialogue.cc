#include "server/session/dialogue.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <variant>

#include "protocol/wire/codec.h"
#include "server/scan/queries.h"

namespace echotrain::server {

using protocol::Error;
using protocol::MessageId;
using protocol::Result;

namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

Step fatal(std::string code, std::string message) {
  Step step;
  step.fatal = Error{std::move(code), std::move(message)};
  return step;
}

// The same for a missing and a wrong token, so that the client does not learn which it was.
Error unauthorized() {
  return {"unauthorized",
          "this server serves only clients that know a token; send a config text of two lines, 'token: ...' and "
          "'use: PIPELINE' (echotrain send --token-file)"};
}

MessageId id_of(const protocol::Message& message) {
  if (std::holds_alternative<protocol::Acquisition>(message)) return MessageId::acquisition;
  if (std::holds_alternative<protocol::Image>(message)) return MessageId::image;
  return MessageId::waveform;
}

/// The text at parameters.`key`, or nothing.
std::string parameter(const nlohmann::json& json, const char* key) {
  const auto parameters = json.find("parameters");
  if (parameters == json.end() || !parameters->is_object()) return "";
  const auto value = parameters->find(key);
  return value != parameters->end() && value->is_string() ? value->get<std::string>() : "";
}

}  // namespace

Step Dialogue::handle(const protocol::Message& message) {
  if (state_ == State::flush) return {};
  return std::visit(
      Overloaded{
          [&](const protocol::ConfigFile& config) -> Step {
            return take({expects_config() ? catalogue_.by_name(config.name) : misplaced_config(), ""});
          },
          [&](const protocol::ConfigText& config) -> Step {
            return take(expects_config() ? read_config(catalogue_, config.text) : Config{misplaced_config(), ""});
          },
          [&](const protocol::HeaderText& header) -> Step { return on_header(header.xml); },
          [&](const protocol::Close&) -> Step {
            state_ = State::flush;
            Step step;
            step.closed = true;
            return step;
          },
          [&](const protocol::Text& text) -> Step { return on_text(text.text); },
          [&](const protocol::Query& query) -> Step {
            // What scans have left is for clients that may make scans.
            const bool of_scans =
                query.name.starts_with("echotrain::noise") || query.name.starts_with("echotrain::calibration");
            const bool secret = tokens_ != nullptr && !admissible() && of_scans;
            Step step;
            step.response = protocol::Response{query.correlation_id,
                                               secret ? "unknown" : answer_query(query.name, catalogue_, resources_)};
            return step;
          },
          [&](const protocol::Response&) -> Step {
            return fatal("out-of-order", "a RESPONSE (message 7) came, but nothing was asked");
          },
          [&](const auto&) -> Step {
            Step step;
            if (state_ != State::data) {
              step.fatal = too_early(id_of(message));
              return step;
            }
            data_came();
            step.data = true;
            return step;
          },
      },
      message);
}

std::optional<Error> Dialogue::config_error() const {
  if (state_ == State::header && plan_ && !*plan_) return plan_->error();
  return std::nullopt;
}

Dialogue::Config Dialogue::read_config(const Catalogue& catalogue, std::string_view text) {
  std::string token;
  Result<Catalogue::Plan> plan = catalogue.from_text(text, &token);
  return {std::move(plan), std::move(token)};
}

Error Dialogue::too_early(MessageId id) const {
  const std::string_view name = id == MessageId::acquisition ? "an acquisition"
                                : id == MessageId::image     ? "an image"
                                                             : "a waveform";
  return {"out-of-order",
          fmt::format("{} came before the {}", name, state_ == State::config ? "config and the header" : "header")};
}

std::optional<Error> Dialogue::refusal_of(std::uint16_t id) const {
  if (state_ != State::config && state_ != State::header) return std::nullopt;
  for (const MessageId data : {MessageId::acquisition, MessageId::image, MessageId::waveform})
    if (id == static_cast<std::uint16_t>(data)) return too_early(data);
  return std::nullopt;
}

Error Dialogue::misplaced_config() const {
  if (config_came_) return {"duplicate-config", "a second config came; one connection carries one measurement"};
  return {"out-of-order", "a config came after the header"};
}

Step Dialogue::take(const Config& config) {
  if (!expects_config()) {
    Step step;
    step.fatal = misplaced_config();
    return step;
  }
  config_came_ = true;
  plan_ = tokens_ == nullptr || tokens_->contain(config.token) ? config.plan : unauthorized();
  state_ = State::header;
  Step step;
  step.remark = *plan_ ? fmt::format("config: pipeline '{}'", (**plan_)->spec().name)
                       : fmt::format("config: {}: {}", plan_->error().code, plan_->error().message);
  return step;
}

Step Dialogue::on_header(const std::string& xml) {
  if (header_) return fatal("duplicate-header", "a second header came; one connection carries one measurement");
  if (!plan_ && !catalogue_.has_default())
    return fatal("out-of-order",
                 "a header came before any config; name a pipeline first, or start the server with --default-pipeline");
  if (const Result<Catalogue::Plan> usable = plan(); !usable) return fatal(usable.error().code, usable.error().message);
  return take(protocol::parse_header(xml, limits_));
}

Result<Catalogue::Plan> Dialogue::plan() const {
  if (plan_) return *plan_;
  if (tokens_ != nullptr) return unauthorized();
  return catalogue_.by_name("");
}

bool Dialogue::expects_header() const {
  return !header_ && (plan_ ? static_cast<bool>(*plan_) : tokens_ == nullptr && catalogue_.has_default());
}

Step Dialogue::take(Result<protocol::Header> header) {
  if (!header) return fatal(header.error().code, header.error().message);
  header_ = *std::move(header);
  state_ = State::data;
  return start(*plan());
}

Step Dialogue::start(Catalogue::Plan plan) {
  if (header_->images_only && !plan->takes_images())
    return fatal("bad-header",
                 fmt::format("the header describes no measurement ('Dummy XML header'), but pipeline '{}' "
                             "reconstructs readouts; such a header suits only pipelines from image to image",
                             plan->spec().name));
  plan_ = plan;
  Step step;
  step.start = ScanRequest{std::move(plan), *header_};
  return step;
}

Step Dialogue::on_text(const std::string& text) {
  Step step;
  if (state_ == State::data && !std::exchange(text_came_, true)) read_additional_config(text, step);
  return step;
}

// A FIRE client may send one JSON text after the header, whose parameters replace the config name.
void Dialogue::read_additional_config(const std::string& text, Step& step) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return;
  std::string name = parameter(json, "customconfig");
  if (name.empty()) name = parameter(json, "config");
  if (name.empty()) return;
  const Result<Catalogue::Plan> plan = catalogue_.by_name(name);
  const std::string& current = (**plan_)->spec().name;
  if (!plan) {
    step.warning = fmt::format("additional config: {}; staying with '{}'", plan.error().message, current);
  } else if ((*plan)->spec().name == current) {
    return;
  } else if (data_came_) {
    step.warning = fmt::format("additional config: '{}' came after data; staying with '{}'", name, current);
  } else {
    step = start(*plan);
    if (step.fatal) {
      step.warning = fmt::format("additional config: {}; staying with '{}'", step.fatal->message, current);
      step.fatal.reset();
    } else {
      step.remark = fmt::format("additional config: pipeline '{}' instead of '{}'", name, current);
    }
  }
}

}  // namespace echotrain::server
