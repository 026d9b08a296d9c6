// The protocol state machine knows the order of messages in a session (docs/protocol.md, "Exchange"): it says what each
// control message means at its place.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/data/limits.h"
#include "protocol/data/messages.h"
#include "protocol/data/result.h"
#include "server/base/scan_header.h"
#include "server/net/identity.h"
#include "server/net/tokens.h"
#include "server/scan/pipeline_catalogue.h"
#include "server/scan/queries.h"
#include "server/scan/scan_request.h"

namespace echotrain::server {

/// The action that a message asks of the session. At most one of fatal, start and closed is set.
struct SessionAction {
  std::optional<protocol::Error> fatal;        ///< the session ends with this reason
  std::optional<protocol::Response> response;  ///< to be sent
  std::optional<ScanRequest> start;            ///< the scan to run, in place of one that was started before
  std::string warning;                         ///< a line for the client
  std::string remark;                          ///< a line for the log
  std::string detail;                          ///< what the client wrote of it, for the log at debug
  bool data = false;                           ///< the message is for the pipeline
  bool closed = false;                         ///< the client's CLOSE
};

/// The state machine CONFIG -> HEADER -> DATA -> FLUSH. No sockets, no threads.
class ProtocolStateMachine {
 public:
  ProtocolStateMachine(const PipelineCatalogue& catalogue, const protocol::Limits& limits,
                       numerics::Resources& resources)
      : catalogue_(catalogue), limits_(limits), resources_(resources) {}

  /// The facts that are known of the client before its first message. Its pointers must outlive the state machine.
  struct Client {
    std::string peer;                                  ///< "10.1.2.3:4711", or what it is if it has no address
    std::string subject;                               ///< of its checked certificate; empty: it has none
    const Identities* identities = nullptr;            ///< null: no clients are joined
    const Tokens* tokens = nullptr;                    ///< null: there are none
    bool needs_token = false;                          ///< it must send one of them in a config text
    std::optional<Identity> known{};                   ///< of a client whom this session serves in its absence
    std::optional<config::ClientPipelines> granted{};  ///< to that client
  };
  void set_client(Client client);
  /// Returns the client's identity as far as it is known: a token may still come with the config.
  const Identity& identity() const { return identity_; }
  /// Returns the rights that its token has given.
  const std::optional<config::ClientPipelines>& granted() const { return granted_; }
  /// Returns the identity of a client that shows this token, if any, in a query; nothing where a token is missing.
  std::optional<Identity> identity_with(std::string_view token) const;

  /// True if a token is required and no valid one has come.
  bool needs_token() const { return client_.needs_token && !token_known_; }
  /// True if a config text that begins so may be read: it has a valid token, or none is required. Looks only for the
  /// token.
  bool may_read(std::string_view config_text);
  /// Returns the error for a client without a valid token: the same for a missing and for a wrong one.
  static protocol::Error unauthorized();

  SessionAction handle(const protocol::Message& message);

  /// The contents of a config text.
  struct Config {
    protocol::Result<PipelineCatalogue::Choice> choice;
    std::string token;
    bool foreign = false;  ///< Gadgetron's XML, whether or not a pipeline could be made of it
  };
  static Config read_config(const PipelineCatalogue& catalogue, std::string_view text);
  /// True if a config may come now.
  bool expects_config() const { return state_ == State::config && !config_came_; }
  /// Does the work of handle() for a config text that read_config() has read on another thread.
  SessionAction take(const Config& config);
  /// True if a header may come now and is of use.
  bool expects_header() const;
  /// Does the work of handle() for a header that read_scan_header() has read on another thread. Precondition:
  /// expects_header().
  SessionAction take(protocol::Result<std::shared_ptr<const ScanHeader>> header);

  enum class State { config, header, data, flush };
  State state() const { return state_; }
  /// Returns the error for a message that its id alone rules out: data before the header. Without this check, a client
  /// could take hours to send 1 GiB of them.
  std::optional<protocol::Error> refusal_of(std::uint16_t id) const;
  /// True if this TEXT may be a host's JSON. read_additional() reads that on any thread; take() then applies it.
  bool expects_additional(const std::string& text) const;
  /// The changes that a host's JSON after the header asks for.
  struct Additional {
    std::optional<protocol::Result<PipelineCatalogue::Choice>> choice{};  ///< nothing: all stays as it is
    bool other = false;                                                   ///< it is another pipeline
    std::string warning{};
  };
  Additional read_additional(const std::string& text) const;
  SessionAction take(const Additional& additional);
  /// Returns the text that answers a query; `pay`: see QueryClient. Any thread may call it.
  std::string answer(const protocol::Query& query, std::function<void(std::uint64_t)> pay = nullptr) const;
  /// True if the answer is about noise or reference lines of earlier scans, which may have to be read from a disk.
  static bool tells_of_server(const protocol::Query& query);
  static bool asks_of_scans(const protocol::Query& query);
  /// True if the answer may be long and take long to make.
  static bool is_long(const protocol::Query& query);

  /// Notes a readout, waveform or image in state data; replaces handle() there.
  void data_came() { data_came_ = true; }
  /// True once the client has named a pipeline that it may use, or its header stands for one: it may have a session.
  bool admissible() const { return choice_ && *choice_; }
  /// Returns the error of a config that cannot be used. The client is told when its header comes; a client that sends
  /// CLOSE instead must not be told (a Gadgetron client would abort).
  std::optional<protocol::Error> config_error() const;

 private:
  QueryClient asker() const;
  void identify(const std::optional<Tokens::Grant>& grant);
  Identity identity_of(const std::optional<Tokens::Grant>& grant) const;
  protocol::Error misplaced_config() const;
  protocol::Error too_early(protocol::MessageId id) const;
  protocol::Result<PipelineCatalogue::Choice> choice() const;
  SessionAction on_header(const std::string& xml);
  SessionAction on_text(const std::string& text);
  SessionAction start(PipelineCatalogue::Choice choice);

  const PipelineCatalogue& catalogue_;
  const protocol::Limits& limits_;
  numerics::Resources& resources_;  // of which a client may ask
  Client client_;
  Identity identity_{"program:unknown"};
  std::optional<config::ClientPipelines> granted_;  // by its token
  bool token_known_ = false;
  std::size_t told_ = 0;  // bytes of answers before it has a session
  State state_ = State::config;
  std::optional<protocol::Result<PipelineCatalogue::Choice>> choice_;
  std::string warning_;  // about the config; for the client, once its header has come
  std::shared_ptr<const ScanHeader> header_;
  bool config_came_ = false;
  bool text_came_ = false;  // after the header
  bool data_came_ = false;
};

}  // namespace echotrain::server
