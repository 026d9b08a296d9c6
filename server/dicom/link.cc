#include "server/dicom/link.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <stdexcept>

#include "protocol/dicom/dicom_built.h"

#if ECHOTRAIN_HAS_DCMTK

#include <dcmtk/config/osconfig.h>
#include <dcmtk/dcmdata/dctk.h>
#include <dcmtk/dcmnet/dcmlayer.h>
#include <dcmtk/dcmnet/dcmtrans.h>
#include <dcmtk/dcmnet/dimse.h>
#include <dcmtk/dcmtls/tlslayer.h>
#include <dcmtk/oflog/oflog.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <utility>

namespace echotrain::server {
namespace {

constexpr T_ASC_PresentationContextID kEcho = 1, kImages = 3, kEnhanced = 5;
// PS3.7 Annex C and PS3.4 B.2.3.
constexpr std::uint16_t kSuccess = 0x0000, kDuplicate = 0x0111;
constexpr std::uint16_t kWarnings = 0xb000, kNoRoom = 0xa700, kClass = 0xff00, kWarningClass = 0xf000;

DicomReply failed(std::string text) { return {DicomReply::Kind::failed, std::move(text)}; }

DicomReply failed(const OFCondition& why) { return failed(std::string(why.text())); }

/// Says that the file may be at fault.
DicomReply not_taken(DicomReply reply) {
  reply.kind = DicomReply::Kind::not_taken;
  return reply;
}

/// The socket of an association, so that another thread can shut it down.
class OpenSocket {
 public:
  void set(int socket) {
    const std::scoped_lock lock(mutex_);
    socket_ = socket;
    if (interrupted_) ::shutdown(socket_, SHUT_RDWR);
  }
  void forget() {
    const std::scoped_lock lock(mutex_);
    socket_ = -1;
  }
  void interrupt() {
    const std::scoped_lock lock(mutex_);
    interrupted_ = true;
    if (socket_ >= 0) ::shutdown(socket_, SHUT_RDWR);
  }
  bool interrupted() const {
    const std::scoped_lock lock(mutex_);
    return interrupted_;
  }

 private:
  mutable std::mutex mutex_;
  int socket_ = -1;
  bool interrupted_ = false;
};

/// A transport layer that tells of its sockets.
template <class Layer>
class WatchedLayer : public Layer {
 public:
  template <class... A>
  explicit WatchedLayer(OpenSocket& socket, A&&... arguments) : Layer(std::forward<A>(arguments)...), socket_(socket) {}
  DcmTransportConnection* createConnection(DcmNativeSocketType socket, OFBool secure) override {
    socket_.set(socket);
    return Layer::createConnection(socket, secure);
  }

 private:
  OpenSocket& socket_;
};

using TlsLayer = WatchedLayer<DcmTLSTransportLayer>;

std::unique_ptr<TlsLayer> make_tls(const config::DicomOptions& options, OpenSocket& socket) {
  auto layer = std::make_unique<TlsLayer>(socket, NET_REQUESTOR, nullptr, OFFalse);
  const auto use = [](const char* option, const std::string& file, const OFCondition& done) {
    if (done.bad()) throw std::runtime_error(fmt::format("{}: '{}' cannot be used: {}", option, file, done.text()));
  };
  if (options.tls_ca.empty())
    throw std::runtime_error("dicom.tls_ca: a peer with /tls needs the certificates that vouch for it");
  use("dicom.tls_ca", options.tls_ca, layer->addTrustedCertificateFile(options.tls_ca.c_str(), DCF_Filetype_PEM));
  if (!options.tls_certificate.empty() || !options.tls_key.empty()) {
    use("dicom.tls_key", options.tls_key, layer->setPrivateKeyFile(options.tls_key.c_str(), DCF_Filetype_PEM));
    use("dicom.tls_certificate", options.tls_certificate,
        layer->setCertificateFile(options.tls_certificate.c_str(), DCF_Filetype_PEM));
    if (layer->checkPrivateKeyMatchesCertificate() == OFFalse)
      throw std::runtime_error("dicom.tls_key: it is not the key of dicom.tls_certificate");
  }
  layer->setCertificateVerification(DCV_requireCertificate);
  use("TLS profile", "BCP 195", layer->setTLSProfile(TSP_Profile_BCP195));
  use("TLS profile", "BCP 195", layer->activateCipherSuites());
  return layer;
}

class DcmtkLink : public DicomLink {
 public:
  DcmtkLink(DicomPeer peer, const config::DicomOptions& options)
      : peer_(std::move(peer)),
        our_title_(options.ae_title),
        timeout_s_(std::max(1, static_cast<int>(std::ceil(options.timeout_s)))),
        plain_(socket_) {
    if (peer_.tls) tls_ = make_tls(options, socket_);
  }
  ~DcmtkLink() override {
    close();
    if (network_ != nullptr) ASC_dropNetwork(&network_);
  }

  DicomReply echo() override {
    if (DicomReply open = connect(); open.kind != DicomReply::Kind::done) return open;
    if (ASC_findAcceptedPresentationContextID(association_, UID_VerificationSOPClass) == 0) return {};  // it is there
    std::uint16_t status = 0;
    DcmDataset* detail = nullptr;
    const OFCondition done =
        DIMSE_echoUser(association_, association_->nextMsgID++, DIMSE_NONBLOCKING, timeout_s_, &status, &detail);
    delete detail;
    if (done.bad()) return drop(done);
    return status == kSuccess ? DicomReply{} : failed(fmt::format("C-ECHO is answered with status {:04x}", status));
  }

  DicomReply store(const std::filesystem::path& file) override {
    // A file that cannot be opened now (too many are open) is no file that the peer refuses.
    if (const int opened = ::open(file.c_str(), O_RDONLY | O_CLOEXEC); opened >= 0)
      ::close(opened);
    else if (errno != ENOENT)
      return not_taken(failed(fmt::format("{} cannot be opened: {}", file.filename().string(), std::strerror(errno))));
    DcmFileFormat loaded;
    if (const OFCondition read = loaded.loadFile(file.c_str()); read.bad())
      return {DicomReply::Kind::refused, fmt::format("it cannot be read: {}", read.text())};
    if (DicomReply open = connect(); open.kind != DicomReply::Kind::done) return open;
    OFString sop_class, instance;
    loaded.getDataset()->findAndGetOFString(DCM_SOPClassUID, sop_class);
    loaded.getDataset()->findAndGetOFString(DCM_SOPInstanceUID, instance);
    const T_ASC_PresentationContextID context = ASC_findAcceptedPresentationContextID(association_, sop_class.c_str());
    if (context == 0)
      return {DicomReply::Kind::refused, fmt::format("the peer takes no images of class {}", sop_class.c_str())};
    T_DIMSE_C_StoreRQ request{};
    request.MessageID = association_->nextMsgID++;
    OFStandard::strlcpy(request.AffectedSOPClassUID, sop_class.c_str(), sizeof request.AffectedSOPClassUID);
    OFStandard::strlcpy(request.AffectedSOPInstanceUID, instance.c_str(), sizeof request.AffectedSOPInstanceUID);
    request.DataSetType = DIMSE_DATASET_PRESENT;
    request.Priority = DIMSE_PRIORITY_MEDIUM;
    T_DIMSE_C_StoreRSP response{};
    DcmDataset* detail = nullptr;
    const OFCondition done = DIMSE_storeUser(association_, context, &request, nullptr, loaded.getDataset(), nullptr,
                                             nullptr, DIMSE_NONBLOCKING, timeout_s_, &response, &detail);
    delete detail;
    if (done.bad()) return not_taken(drop(done));
    return judge(response.DimseStatus);
  }

  void close() override {
    if (association_ == nullptr) return;
    if (socket_.interrupted() || ASC_releaseAssociation(association_).bad()) ASC_abortAssociation(association_);
    destroy();
  }

  void interrupt() override { socket_.interrupt(); }

 private:
  static DicomReply judge(std::uint16_t status) {
    if (status == kSuccess || status == kDuplicate || (status & kWarningClass) == kWarnings) return {};
    if ((status & kClass) == kNoRoom)
      return {DicomReply::Kind::no_room, fmt::format("the peer has no room (status {:04x})", status)};
    return {DicomReply::Kind::refused, fmt::format("C-STORE is answered with status {:04x}", status)};
  }

  DicomReply connect() {
    if (association_ != nullptr) return {};
    if (socket_.interrupted()) return failed("the server ends");
    if (network_ == nullptr) {
      if (const OFCondition made = ASC_initializeNetwork(NET_REQUESTOR, 0, timeout_s_, &network_); made.bad())
        return failed(made);
      ASC_setTransportLayer(network_, tls_ ? static_cast<DcmTransportLayer*>(tls_.get()) : &plain_, 0);
    }
    T_ASC_Parameters* parameters = nullptr;
    ASC_createAssociationParameters(&parameters, ASC_DEFAULTMAXPDU);
    ASC_setTransportLayerType(parameters, tls_ ? OFTrue : OFFalse);
    ASC_setAPTitles(parameters, our_title_.c_str(), peer_.ae_title.c_str(), nullptr);
    const std::string address = fmt::format("{}:{}", peer_.host, peer_.port);
    ASC_setPresentationAddresses(parameters, "localhost", address.c_str());
    const char* syntaxes[] = {UID_LittleEndianExplicitTransferSyntax, UID_LittleEndianImplicitTransferSyntax};
    ASC_addPresentationContext(parameters, kEcho, UID_VerificationSOPClass, syntaxes + 1, 1);
    ASC_addPresentationContext(parameters, kImages, UID_MRImageStorage, syntaxes, 2);
    if (peer_.enhanced) ASC_addPresentationContext(parameters, kEnhanced, UID_EnhancedMRImageStorage, syntaxes, 2);
    const OFCondition done =
        ASC_requestAssociation(network_, parameters, &association_, nullptr, nullptr, DUL_NOBLOCK, timeout_s_);
    if (done.good()) return {};
    DicomReply reply = failed(done);
    if (done == DUL_ASSOCIATIONREJECTED) {
      T_ASC_RejectParameters rejected{};
      OFString why;
      ASC_getRejectParameters(parameters, &rejected);
      ASC_printRejectParameters(why, &rejected);
      std::replace(why.begin(), why.end(), '\n', ' ');
      reply = failed(fmt::format("the association is rejected: {}", why.c_str()));
    }
    if (association_ == nullptr) ASC_destroyAssociationParameters(&parameters);
    destroy();
    return reply;
  }

  /// Ends the association, which is of no more use after an error.
  DicomReply drop(const OFCondition& why) {
    ASC_abortAssociation(association_);
    destroy();
    return failed(why);
  }

  void destroy() {
    socket_.forget();
    if (association_ != nullptr) ASC_destroyAssociation(&association_);
    association_ = nullptr;
  }

  const DicomPeer peer_;
  const std::string our_title_;
  const int timeout_s_;
  OpenSocket socket_;
  WatchedLayer<DcmTransportLayer> plain_;
  std::unique_ptr<TlsLayer> tls_;
  T_ASC_Network* network_ = nullptr;
  T_ASC_Association* association_ = nullptr;
};

}  // namespace

MakeDicomLink dcmtk_links(const config::DicomOptions& options) {
  OFLog::configure(OFLogger::OFF_LOG_LEVEL);  // its log goes to stderr, among our lines
  const int seconds = std::max(1, static_cast<int>(std::ceil(options.timeout_s)));
  dcmConnectionTimeout.set(seconds);
  dcmSocketSendTimeout.set(seconds);
  dcmSocketReceiveTimeout.set(seconds);
  return [options](const DicomPeer& peer) -> std::unique_ptr<DicomLink> {
    return std::make_unique<DcmtkLink>(peer, options);
  };
}

}  // namespace echotrain::server

#else

namespace echotrain::server {

MakeDicomLink dcmtk_links(const config::DicomOptions& /*options*/) {
  throw std::runtime_error(
      "dicom.peers: this server was built without DICOM: install DCMTK (Debian: libdcmtk-dev), then configure and "
      "build "
      "it again");
}

}  // namespace echotrain::server

#endif
