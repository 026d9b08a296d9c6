#include "server/session/protocol_state_machine.h"

#include <fmt/format.h>

#include <utility>
#include <variant>

#include "gadgets/engine/gadgetron/gadgetron_config.h"
#include "protocol/wire/codec.h"

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

SessionAction fatal(std::string code, std::string message) {
  SessionAction step;
  step.fatal = Error{std::move(code), std::move(message)};
  return step;
}

MessageId id_of(const protocol::Message& message) {
  if (std::holds_alternative<protocol::Acquisition>(message)) return MessageId::acquisition;
  if (std::holds_alternative<protocol::Image>(message)) return MessageId::image;
  return MessageId::waveform;
}

std::string joined(const std::string& one, const char* between, const std::string& other) {
  return one + (one.empty() || other.empty() ? "" : between) + other;
}

constexpr std::string_view kMatrix = "echotrain::noise_matrix/";

constexpr std::size_t kToldBefore = kTokenBytes;  // of answers, as of bytes that are taken where a token is needed

}  // namespace

Error ProtocolStateMachine::unauthorized() {
  return {"unauthorized",
          "this server serves only clients that know a token; send a config text of two lines, 'token: ...' and "
          "'use: PIPELINE' (echotrain send --token-file)"};
}

bool ProtocolStateMachine::may_read(std::string_view config_text) {
  if (needs_token()) token_known_ = client_.tokens->contain(token_in(config_text));
  return !needs_token();
}

SessionAction ProtocolStateMachine::handle(const protocol::Message& message) {
  if (state_ == State::flush) return {};
  return std::visit(
      Overloaded{
          [&](const protocol::ConfigFile& config) -> SessionAction {
            return take(Config{expects_config() ? catalogue_.choose_by_name(config.name) : misplaced_config(), ""});
          },
          [&](const protocol::ConfigText& config) -> SessionAction {
            if (!expects_config()) return take(Config{misplaced_config(), ""});
            return take(may_read(config.text) ? read_config(catalogue_, config.text) : Config{unauthorized(), ""});
          },
          [&](const protocol::HeaderText& header) -> SessionAction { return on_header(header.xml); },
          [&](const protocol::Close&) -> SessionAction {
            state_ = State::flush;
            SessionAction step;
            step.closed = true;
            return step;
          },
          [&](const protocol::Text& text) -> SessionAction { return on_text(text.text); },
          [&](const protocol::Query& query) -> SessionAction {
            SessionAction step;
            const bool told_enough = !admissible() && told_ >= kToldBefore;
            step.response =
                protocol::Response{query.correlation_id, told_enough ? "refused: send a config first" : answer(query)};
            if (!admissible()) told_ += step.response->text.size();
            return step;
          },
          [&](const protocol::Response&) -> SessionAction {
            return fatal("out-of-order", "a RESPONSE (message 7) came, but nothing was asked");
          },
          [&](const auto&) -> SessionAction {
            SessionAction step;
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

std::optional<Error> ProtocolStateMachine::config_error() const {
  if (state_ == State::header && choice_ && !*choice_) return choice_->error();
  return std::nullopt;
}

ProtocolStateMachine::Config ProtocolStateMachine::read_config(const PipelineCatalogue& catalogue,
                                                               std::string_view text) {
  return {catalogue.choose(text), token_in(text), is_xml(text)};
}

std::string ProtocolStateMachine::answer(const protocol::Query& query, std::function<void(std::uint64_t)> pay) const {
  // What scans have left is for clients that may make scans.
  if (asks_of_scans(query) && client_.needs_token && !admissible()) return "unknown";
  // A version tells an attacker what to try.
  if (tells_of_server(query) && client_.needs_token && !admissible())
    return query.name == "gadgetron::version" ? "Echotrain (speaks Gadgetron's protocol)" : "unknown";
  if (query.name.starts_with(kMatrix) && !admissible())
    return "refused: name a pipeline, by a config, before this question";
  QueryClient client = asker();
  client.pay = std::move(pay);
  return answer_query(query.name, catalogue_, resources_, client);
}

bool ProtocolStateMachine::asks_of_scans(const protocol::Query& query) {
  return query.name.starts_with("echotrain::noise") || query.name.starts_with("echotrain::calibration");
}

bool ProtocolStateMachine::tells_of_server(const protocol::Query& query) {
  return query.name.starts_with("gadgetron::") || query.name.ends_with("::version") ||
         query.name == "echotrain::pipelines";
}

bool ProtocolStateMachine::is_long(const protocol::Query& query) { return query.name.starts_with(kMatrix); }

Error ProtocolStateMachine::too_early(MessageId id) const {
  const std::string_view name = id == MessageId::acquisition ? "an acquisition"
                                : id == MessageId::image     ? "an image"
                                                             : "a waveform";
  return {"out-of-order",
          fmt::format("{} came before the {}", name, state_ == State::config ? "config and the header" : "header")};
}

std::optional<Error> ProtocolStateMachine::refusal_of(std::uint16_t id) const {
  if (state_ != State::config && state_ != State::header) return std::nullopt;
  for (const MessageId data : {MessageId::acquisition, MessageId::image, MessageId::waveform})
    if (id == static_cast<std::uint16_t>(data)) return too_early(data);
  return std::nullopt;
}

QueryClient ProtocolStateMachine::asker() const {
  return {identity_.text, header_ ? std::optional<std::string_view>(header_->device) : std::nullopt};
}

void ProtocolStateMachine::set_client(Client client) {
  client_ = std::move(client);
  identify(std::nullopt);
}

void ProtocolStateMachine::identify(const std::optional<Tokens::Grant>& grant) {
  identity_ = client_.known ? *client_.known : identity_of(grant);
  if (client_.known) granted_ = client_.granted;
}

Identity ProtocolStateMachine::identity_of(const std::optional<Tokens::Grant>& grant) const {
  static const Identities nobody_joined;
  const Identities& identities = client_.identities != nullptr ? *client_.identities : nobody_joined;
  return identities.of(grant ? grant->identity : "", client_.subject, client_.peer);
}

std::optional<Identity> ProtocolStateMachine::identity_with(std::string_view token) const {
  if (client_.tokens != nullptr && !token.empty())
    if (const auto grant = client_.tokens->find(token)) return identity_of(grant);
  if (needs_token()) return std::nullopt;
  return identity_;
}

Error ProtocolStateMachine::misplaced_config() const {
  if (config_came_) return {"duplicate-config", "a second config came; one connection carries one measurement"};
  return {"out-of-order", "a config came after the header"};
}

SessionAction ProtocolStateMachine::take(const Config& config) {
  if (!expects_config()) {
    SessionAction step;
    step.fatal = misplaced_config();
    return step;
  }
  config_came_ = true;
  const std::optional<Tokens::Grant> grant =
      client_.tokens != nullptr ? client_.tokens->find(config.token) : std::nullopt;
  identify(grant);
  if (grant && !client_.known) granted_ = grant->client_pipelines;
  const bool known = !client_.needs_token || grant;
  choice_ = known ? config.choice : unauthorized();
  std::optional<Error> refusal;
  if (*choice_)
    refusal = catalogue_.refusal_of((**choice_).plan, granted_);
  else if (known && config.foreign)
    refusal = catalogue_.refusal_of_own(granted_);
  if (refusal) choice_ = *std::move(refusal);
  state_ = State::header;
  SessionAction step;
  if (*choice_) {
    const PipelineCatalogue::Choice& choice = **choice_;
    warning_ = choice.warning;
    step.remark = catalogue_.offers(choice.plan) ? fmt::format("config: pipeline '{}'", choice.plan->spec().name)
                                                 : "config: a pipeline of the client's own";
    step.detail = joined(fmt::format("config: pipeline '{}'", choice.plan->spec().name), " with ", choice.set_by_host);
  } else {
    step.remark = fmt::format("config: {}", choice_->error().code);
  }
  return step;
}

SessionAction ProtocolStateMachine::on_header(const std::string& xml) {
  if (header_) return fatal("duplicate-header", "a second header came; one connection carries one measurement");
  if (!choice_ && !catalogue_.has_default())
    return fatal("out-of-order",
                 "a header came before any config; name a pipeline first, or start the server with --default-pipeline");
  if (const Result<PipelineCatalogue::Choice> usable = choice(); !usable)
    return fatal(usable.error().code, usable.error().message);
  return take(read_scan_header(xml, limits_));
}

Result<PipelineCatalogue::Choice> ProtocolStateMachine::choice() const {
  if (choice_) return *choice_;
  if (client_.needs_token) return unauthorized();
  return catalogue_.choose_by_name("");
}

bool ProtocolStateMachine::expects_header() const {
  return !header_ && (choice_ ? static_cast<bool>(*choice_) : !client_.needs_token && catalogue_.has_default());
}

SessionAction ProtocolStateMachine::take(Result<std::shared_ptr<const ScanHeader>> header) {
  if (!header) return fatal(header.error().code, header.error().message);
  header_ = *std::move(header);
  state_ = State::data;
  SessionAction step = start(*choice());
  step.warning = joined(std::exchange(warning_, ""), "; ", step.warning);
  return step;
}

SessionAction ProtocolStateMachine::start(PipelineCatalogue::Choice choice) {
  if (header_->images_only && !choice.plan->takes_images())
    return fatal("bad-header",
                 fmt::format("the header describes no measurement ('Dummy XML header'), but pipeline '{}' "
                             "reconstructs readouts; such a header suits only pipelines from image to image",
                             choice.plan->spec().name));
  SessionAction step;
  step.start = ScanRequest{choice.plan, header_,        choice.set_by_host, choice.used.json,
                           "",          identity_.text, identity_.part,     catalogue_.trusts(choice.plan, granted_)};
  choice_ = std::move(choice);
  return step;
}

SessionAction ProtocolStateMachine::on_text(const std::string& text) {
  if (expects_additional(text)) return take(read_additional(text));
  if (state_ == State::data) text_came_ = true;
  return {};
}

bool ProtocolStateMachine::expects_additional(const std::string& text) const {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return state_ == State::data && !text_came_ && first != std::string::npos && text[first] == '{';
}

// A FIRE client may send one JSON text after the header: a config name in place of its first one, and values for
// parameters that the pipeline exposes.
ProtocolStateMachine::Additional ProtocolStateMachine::read_additional(const std::string& text) const {
  Additional out;
  const HostParameters host = read_host_parameters(text);
  if (!host.given) return out;
  const PipelineCatalogue::Choice& now = **choice_;
  PipelineCatalogue::Plan wanted = now.as_written;
  const std::string current = wanted->spec().name;
  if (!host.pipeline.empty()) {
    const Result<PipelineCatalogue::Plan> named = catalogue_.by_name(host.pipeline);
    if (!named)
      out.warning = fmt::format("additional config: {}; staying with '{}'", named.error().message, current);
    else if ((*named)->spec().name != current) {
      wanted = *named;
      out.warning = catalogue_.library().remark_on(host.pipeline);
    }
  }
  out.other = wanted->spec().name != current;
  if (data_came_) {
    if (out.other)
      out.warning = fmt::format("additional config: '{}' came after data; staying with '{}'", host.pipeline, current);
    if (!host.values.empty())
      out.warning = joined(out.warning, "; ", "additional config: parameters came after data, and change nothing");
  } else {
    out.choice = catalogue_.with_values(wanted, out.other ? host : later(now.used, host));
  }
  return out;
}

SessionAction ProtocolStateMachine::take(const Additional& additional) {
  text_came_ = true;
  SessionAction step;
  step.warning = additional.warning;
  if (!additional.choice) return step;
  const Result<PipelineCatalogue::Choice>& choice = *additional.choice;
  if (!choice) {
    step.warning = "";
    step.fatal = Error{choice.error().code, "additional config: " + choice.error().message};
    return step;
  }
  const PipelineCatalogue::Choice now = **choice_;
  std::string warning = additional.warning;
  if (additional.other || choice->set_by_host != now.set_by_host || choice->used.json != now.used.json) {
    const std::string current = now.as_written->spec().name;
    step = start(*choice);
    if (step.fatal)
      warning =
          fmt::format("additional config: {}; staying with '{}'", std::exchange(step.fatal, {})->message, current);
    else
      step.detail = fmt::format(
          "additional config: {}{}",
          additional.other ? fmt::format("pipeline '{}' instead of '{}' ", choice->as_written->spec().name, current)
                           : "",
          choice->set_by_host);
    if (step.start) step.remark = "additional config: the host has set pipeline or parameters";
  }
  step.warning = joined(warning, "; ", choice->warning.empty() ? "" : "additional config: " + choice->warning);
  return step;
}

}  // namespace echotrain::server
