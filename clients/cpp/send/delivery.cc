#include "clients/cpp/send/delivery.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ostream>
#include <span>
#include <thread>
#include <utility>
#include <variant>

#include "clients/cpp/base/interruption.h"
#include "clients/cpp/connection/tls_layer.h"
#include "clients/cpp/send/detached_scan.h"
#include "protocol/data/pluralized.h"
#include "protocol/data/text.h"
#include "protocol/wire/codec.h"

namespace echotrain::client {
namespace {

constexpr std::chrono::duration<double> kFirstPause(0.1), kLongestPause(5), kQuiet(2), kLook(0.05);

// Connections that ended before any answer, one after the other for at least so long: what is there answers none.
constexpr std::size_t kUnanswered = 5;
constexpr std::chrono::duration<double> kUnansweredFor(10);

// ERRORs that end a connection and not the detached scan while it can be resumed.
constexpr std::array kPassing = {"busy", "shutdown", "capture", "timeout", "budget", "resources"};
bool passes(std::string_view error, std::span<const char* const> passing) {
  const std::size_t at = error.find("ERROR");
  if (at == std::string_view::npos) return false;
  error.remove_prefix(std::min(error.size(), error.find_first_not_of(' ', at + 5)));
  return std::any_of(passing.begin(), passing.end(), [&](const char* code) { return error.starts_with(code); });
}

std::optional<std::uint64_t> number_after(std::string_view word, std::string_view text) {
  if (!text.starts_with(word)) return std::nullopt;
  text.remove_prefix(word.size());
  std::uint64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

Delivery::Delivery(DeliveryOptions options, Collector& got, Progress& progress, std::ostream& out, std::ostream& err)
    : options_(std::move(options)), got_(got), progress_(progress), out_(out), err_(err), detach_(options_.detach) {}

std::string Delivery::send(protocol::Buffer opening, ScanSource& source) {
  opening_ = std::move(opening);
  source_ = &source;
  return run();
}

std::string Delivery::resume(std::string id, ScanSource& source) {
  id_ = std::move(id);
  source_ = &source;
  return run();
}

std::string Delivery::fetch(std::string id) {
  id_ = std::move(id);
  fetching_ = true;
  return run();
}

std::string Delivery::run() {
  while (true) {
    std::string lost;
    try {
      const auto exchange = connect();
      if (!exchange) return failure_;
      ++connections_;
      if (loss_ && loss_->quiet) stuck_since_.reset();  // the server is there, and still computes
      tell_of_return();
      got_.open(source_ != nullptr ? source_->header_xml() : "");
      lost = follow(*exchange);
      if (lost.empty()) return failure_;
    } catch (const ServerError& error) {
      if (!passes(error.what(), passing())) return error.what();
      lost = error.what();
    } catch (const ConnectionError& error) {
      if (Interruption::signal() != 0) return interrupted();
      if (dynamic_cast<const TlsWanted*>(&error) != nullptr) throw;
      if (connections_ == 0 && dynamic_cast<const NoConnection*>(&error) != nullptr) throw;
      lost = error.what();
    }
    if (!ever_heard_ && ++unheard_ == 2) refuse_tls();  // a connection of its own, not at the first loss
    if (pause_after(lost)) continue;
    if (Interruption::signal() != 0) return interrupted();
    return fmt::format("the connection was lost, and for {:g} s there was no other: {}{}", options_.resume_for_s, lost,
                       way_on());
  }
}

void Delivery::refuse_tls() const {
  if (!options_.server.tls && speaks_tls(options_.server)) throw TlsWanted();
}

std::string Delivery::way_on() const {
  if (id_.empty()) return "";
  return fmt::format("; the server keeps the scan: 'echotrain {}' goes on",
                     fetching_ || nothing_left_ ? "fetch " + id_ : "send --resume " + id_ + " FILE");
}

std::string Delivery::interrupted() const { return "interrupted" + way_on(); }

std::unique_ptr<Exchange> Delivery::begin() {
  protocol::Buffer messages;
  if (detach_) protocol::encode(protocol::Query{1, kDetach}, messages);
  messages.insert(messages.end(), opening_.begin(), opening_.end());
  OpenConnection open = open_connection(options_.server, options_.patience.sending);
  if (connections_ > 0) source_->go_to(0);
  first_ = acknowledged_ = readouts_before_ = 0;
  return std::make_unique<Exchange>(std::move(open), options_.patience, std::move(messages),
                                    Sending{source_, options_.rate, 0});
}

// Returns nothing when the server does not have the scan: failure_ says so.
std::unique_ptr<Exchange> Delivery::connect() {
  if (id_.empty()) return begin();
  const auto ask = [&](const std::string& what) {
    OpenAnswer answered = ask_and_stay(options_.server, question(what, options_.token), options_.patience.sending);
    ever_heard_ = true;
    return answered;
  };
  std::string answer;
  if (!fetching_) {
    OpenAnswer answered = ask(fmt::format("{}/{}/{}", kResume, id_, got_.images));
    if (const auto message = number_after("resumed ", answered.text))
      return resumed_at(*message, std::move(answered.open));
    answer = std::move(answered.text);
    fetching_ = answer.starts_with("ended");  // its images are there nonetheless
  }
  if (fetching_) {
    OpenAnswer answered = ask(fmt::format("{}/{}/{}", kFetch, id_, got_.images));
    first_ = 0;
    if (answered.text.starts_with("fetching"))
      return std::make_unique<Exchange>(std::move(answered.open), options_.patience, protocol::Buffer(), Sending());
    answer = std::move(answered.text);
  }
  failure_ = not_there(id_, answer);
  return nullptr;
}

std::unique_ptr<Exchange> Delivery::resumed_at(std::uint64_t message, OpenConnection open) {
  if (message < acknowledged_)
    err_ << fmt::format(
        "warning: the server had acknowledged {} messages and has {}: its disk has lost some; they are sent again\n",
        acknowledged_, message);
  first_ = acknowledged_ = message;
  const ScanSource::Place place = source_->go_to(message);
  readouts_before_ = place.readouts;
  nothing_left_ = !place.in_scan;
  return std::make_unique<Exchange>(std::move(open), options_.patience, protocol::Buffer(),
                                    Sending{place.in_scan ? source_ : nullptr, options_.rate, place.readouts});
}

std::string Delivery::follow(Exchange& exchange) {
  auto last = Clock::now();
  passing_error_.clear();
  heard_ = silent_ = false;
  const auto place = [&] { return readouts_before_ + exchange.readouts_sent(); };
  while (!exchange.over() && failure_.empty()) {
    if (auto event = exchange.next(std::chrono::milliseconds(50))) {
      take(*event);
      last = Clock::now();
    }
    if (Interruption::signal() != 0) {
      while (auto event = exchange.next(std::chrono::milliseconds(0))) take(*event);
      failure_ = interrupted();
    }
    left_ = options_.no_wait && safe(exchange);
    silent_ = !id_.empty() && exchange.sent_all() && Clock::now() - last > options_.patience.sending;
    if (left_ || silent_) break;
    progress_.show(place(), got_.images, false);
  }
  sent_.add(exchange);
  lost_at_ = place();
  imaging_sent_ = imaging_sent_ || exchange.imaging_sent();
  if (left_ || !failure_.empty()) return "";
  if (silent_) return fmt::format("nothing came for {:g} s", options_.patience.sending.count());
  return how_it_ended(exchange);
}

// A scan that is fetched may itself have ended with the other errors; one that is not there yet is begun again after
// less.
std::span<const char* const> Delivery::passing() const {
  const std::span<const char* const> all(kPassing);
  if (id_.empty()) return detach_ ? all.subspan(1, 2) : all.first(0);
  return fetching_ ? all.first(2) : all;
}

std::string Delivery::how_it_ended(Exchange& exchange) {
  if (!got_.server_error.empty()) return "";
  if (exchange.closed_by_server() && passing_error_.empty()) {
    if (!exchange.failure().empty())
      failure_ = exchange.failure();
    else if (!exchange.sent_all())
      failure_ = "the server closed the scan before all of it was sent";
    else if (detach_ && id_.empty())
      err_ << "warning: the server did not answer whether it detaches scans; this one ran as an ordinary one\n";
    return "";
  }
  const bool can_return = detach_ || !id_.empty();
  if (!can_return || (!exchange.lost() && passing_error_.empty())) {
    if (!ever_heard_) refuse_tls();
    failure_ = exchange.failure();
    return "";
  }
  note_silence();
  return passing_error_.empty() ? exchange.failure() : passing_error_;
}

// FIRE's server, for one, ends a connection that begins with a question. So does a balancer whose server starts anew.
void Delivery::note_silence() {
  if (!id_.empty() || heard_) unanswered_ = 0;
  if (!id_.empty() || heard_ || !detach_) return;
  if (++unanswered_ == 1) unanswered_since_ = Clock::now();
  if (unanswered_ >= kUnanswered &&
      Clock::now() - unanswered_since_ >= std::min(kUnansweredFor, options_.patience.sending))
    refuse("it ends the connection when asked");
}

void Delivery::take(Event& event) {
  heard_ = ever_heard_ = true;
  if (const auto* image = std::get_if<ReceivedImage>(&event)) {
    moved_ = true;
    return got_.take(*image);
  }
  if (const auto* response = std::get_if<protocol::Response>(&event)) return take(*response);
  progress_.interrupt();
  const auto& text = std::get<protocol::Text>(event);
  if (const std::string line = line_of(text); line.starts_with("ERROR") && passes(line, passing()))
    passing_error_ = "the server says: " + line;
  else
    got_.take(text);
}

void Delivery::take(const protocol::Response& response) {
  constexpr std::string_view kDetached = "detached ";
  if (const auto number = number_after("acknowledged ", response.text)) {
    moved_ = moved_ || *number > acknowledged_;
    acknowledged_ = std::max(acknowledged_, *number);
  } else if (detach_ && id_.empty() && response.text.starts_with(kDetached)) {
    id_ = protocol::printable(response.text.substr(kDetached.size()));
    progress_.interrupt();
    out_ << fmt::format("scan              {}\n", id_) << std::flush;
  } else if (detach_ && id_.empty()) {
    constexpr std::string_view kRefused = "refused: ";
    refuse(response.text.starts_with(kRefused) ? response.text.substr(kRefused.size())
                                               : "it does not know how (" + response.text + ")");
  }
}

void Delivery::refuse(std::string_view why) {
  detach_ = false;
  progress_.interrupt();
  const std::string reason = "the server does not detach this scan: " + protocol::printable(std::string(why));
  if (options_.no_wait && !options_.images_wanted)
    failure_ = reason + "; without --no-wait, and with -o, it goes on as an ordinary one";
  else
    err_ << "warning: " << reason << "; it goes on as an ordinary one, which ends with the connection\n";
}

bool Delivery::safe(const Exchange& exchange) const {
  if (id_.empty() || !exchange.sent_all()) return false;
  return fetching_ || nothing_left_ || acknowledged_ >= first_ + exchange.messages_sent() + 1;
}

// False when it is time to give up, or after an interruption.
bool Delivery::pause_after(const std::string& why) {
  const auto now = Clock::now();
  if (!loss_) loss_ = Loss{now, lost_at_, why, false, silent_};
  if (!stuck_since_ || moved_) {
    stuck_since_ = now;
    pause_ = kFirstPause;
  }
  moved_ = false;
  if (now - *stuck_since_ >= std::chrono::duration<double>(options_.resume_for_s)) return false;
  if (now - loss_->since > kQuiet && !loss_->told) {
    progress_.interrupt();
    err_ << fmt::format("connection lost at readout {}: {}; trying again for {:g} s\n", loss_->readout, why,
                        options_.resume_for_s);
    loss_->told = true;
  }
  for (const auto until = Clock::now() + pause_; Clock::now() < until && Interruption::signal() == 0;)
    std::this_thread::sleep_for(kLook);
  pause_ = std::min(2 * pause_, kLongestPause);
  return Interruption::signal() == 0;
}

void Delivery::tell_of_return() {
  if (!loss_) return;
  const Loss loss = *std::exchange(loss_, std::nullopt);
  if (loss.quiet && !loss.told) return;
  progress_.interrupt();
  const std::string where = source_ != nullptr ? fmt::format("at readout {}", loss.readout)
                                               : "after " + protocol::pluralized(got_.images, "image");
  const std::string back = id_.empty() ? "begun again"
                           : fetching_ ? fmt::format("receiving from image {} on", got_.images + 1)
                                       : fmt::format("resumed at {}", readouts_before_);
  err_ << fmt::format("connection lost {}; {} after {:.1f} s ({})\n", where, back,
                      std::chrono::duration<double>(Clock::now() - loss.since).count(), loss.why);
}

}  // namespace echotrain::client
