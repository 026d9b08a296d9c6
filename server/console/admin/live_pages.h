// The live page's part of the admin port answers its requests: files, state, images, login.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/console/admin/admin_pages.h"
#include "server/console/admin/logins.h"
#include "server/console/admin/viewers.h"
#include "server/console/download/download.h"
#include "server/console/replay/replays.h"

namespace echotrain::server {

/// A request to the live page, with all that the answer depends on.
struct LiveRequest {
  std::string_view path, query;  ///< "/live/image", "scan=7&image=12"
  std::string_view authorization, cookie, csrf, fetch_site;
  std::string_view peer;  ///< address:port, for the log
  bool posts = false;
  bool from_here = false;  ///< the peer is this machine
  std::uint16_t port = 0;  ///< of the admin port: a browser sends a machine's cookies to all of its ports
};

/// True if the page's files, its data or its login are asked for.
bool is_live(std::string_view path);
/// True if the request changes something, and so has to be a POST.
bool is_live_action(std::string_view path);
/// True if this is the stream of events (stream_events() in admin/events.h), which live_page() does not answer.
bool is_events(std::string_view path);

/// Answers requests for the live page, each by what its sender may see.
class LivePages {
 public:
  /// The environment outlives this. All members are for the admin port's strand.
  LivePages(const Environment& environment, AddSession add_session);

  /// Returns 429 for an address that has shown many wrong tokens, whatever it asks for that takes one (a rate limit).
  std::optional<AdminPage> too_many_tries(const LiveRequest& order);
  /// Returns 404 where there is no page, 403 for requests that another site's page has caused, 401 for those who must
  /// log in first.
  std::optional<AdminPage> refusal(const LiveRequest& order);
  /// The parts of an answer beside its text, or in its place.
  struct Attachments {
    std::optional<std::uint64_t> viewer;  ///< for whom an image is, which may be made smaller when its link is slow
    std::vector<std::shared_ptr<const KeptImage>> images{};  ///< to be sent instead of the page (send_images())
    std::shared_ptr<Download> file{};                        ///< the same, of what is made of images (send_download())
    /// Makes the page instead, on a thread that has no sockets to look after: it may take 100 ms. May be empty.
    std::function<AdminPage()> work{};
    std::shared_ptr<const void> paid{};  ///< memory of the page; to be kept until it has been sent
  };
  /// Answers a request. Precondition: is_live(order.path), not is_events(), and no refusal.
  AdminPage answer(const LiveRequest& order, Attachments& attachments);
  /// True if the request comes from a browser that is logged in and, as the word against forgery shows, from the page.
  bool may_act(const LiveRequest& order);
  /// Returns 403 for what a browser that is logged in sends without that word. Nothing for those with a token, and for
  /// those who are not logged in: refusal() says whether these may look.
  std::optional<AdminPage> forgery(const LiveRequest& order);

  Viewers& viewers() { return viewers_; }
  const std::string& state() { return state_.text(environment_); }

 private:
  const Logins::Login* login(const LiveRequest& order);
  bool may_look(const LiveRequest& order);
  bool is_from_page(const LiveRequest& order);
  AdminPage log_in(const LiveRequest& order);
  AdminPage image(const LiveRequest& order, Attachments& attachments);
  AdminPage download(const LiveRequest& order, Attachments& attachments);
  AdminPage replay(const LiveRequest& order, Attachments& attachments);
  AdminPage diagnose(const LiveRequest& order, Attachments& attachments);
  bool knows(const LiveRequest& order);

  const Environment& environment_;
  Logins logins_;
  Viewers viewers_;
  LiveState state_;
  const Downloads downloads_;
  const std::shared_ptr<Replays> replays_;
  const std::shared_ptr<std::atomic<std::uint64_t>> answering_ = std::make_shared<std::atomic<std::uint64_t>>(0);
};

}  // namespace echotrain::server
