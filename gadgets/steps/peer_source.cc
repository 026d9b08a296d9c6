#include "gadgets/steps/peer.h"
#include "gadgets/steps/python_peer.h"
#include "gadgets/steps/server_peer.h"

namespace echotrain {

PeerSource::PeerSource()
    : python([](const StepSettings& settings, const PythonStart& start, const PeerScan& scan) -> std::unique_ptr<Peer> {
        return std::make_unique<PythonPeer>(settings, start, scan);
      }),
      server(connect_to_server) {}

}  // namespace echotrain
