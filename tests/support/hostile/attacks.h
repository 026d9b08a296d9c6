// An attack is one connection of a hostile client that a server has once suffered from, or would.
#pragma once

#include <span>

#include "tests/support/hostile/peer.h"
#include "tests/support/hostile/scans.h"

namespace echotrain::hostile {

struct Attack {
  const char* name;
  /// Returns when the server has ended the connection, when the attack is over, or soon after it is time to end.
  void (*run)(Peer&, Random&);
};

std::span<const Attack> attacks();

// Those that hold places and memory without using them.
void query_for_ever(Peer& peer, Random& random);     ///< a QUERY every 1.5 s, never a config
void text_for_ever(Peer& peer, Random& random);      ///< empty TEXTs after the header
void send_huge_header(Peer& peer, Random& random);   ///< up to the server's bound, above it, and far above
void claim_huge_matrix(Peer& peer, Random& random);  ///< 512 x 512 x 255 voxels, and one readout
void be_silent(Peer& peer, Random& random);          ///< at once, after the config, the header, or inside a message
void drip(Peer& peer, Random& random);               ///< a scan byte by byte
void never_read(Peer& peer, Random& random);         ///< QUERYs, or images that come back, without reading the answers

// Those that make it work.
void open_frames(Peer& peer, Random& random);       ///< readouts each of which opens a frame
void cut_batches(Peer& peer, Random& random);       ///< imaging and navigator readouts by turns, on a large matrix
void send_odd_values(Peer& peer, Random& random);   ///< samples of 1e30, 1e38 and 1e-42
void new_trajectory(Peer& peer, Random& random);    ///< 3D least squares along a trajectory that nobody has seen
void abandon(Peer& peer, Random& random);           ///< RST while the longest computation runs
void flood_with_roles(Peer& peer, Random& random);  ///< images, each of a role that no pipeline has a use for
void reset_anywhere(Peer& peer, Random& random);    ///< RST at any byte of a scan
void send_garbage(Peer& peer, Random& random);      ///< any bytes, or a scan with flipped bits

// Those that ask for work before they are let in, or just after.
void send_host_json(Peer& peer, Random& random);    ///< a host's JSON of up to 60,000 parameters
void send_long_config(Peer& peer, Random& random);  ///< 1 MiB of YAML, slow to read
void send_zfp_bombs(Peer& peer, Random& random);    ///< 131 KB for 64 MiB of zeros, or 8 KB for 1 MiB
void ask_for_matrices(Peer& peer, Random& random);  ///< QUERYs with long answers, before the config and after it
void flood_log(Peer& peer, Random& random);         ///< texts and errors that a server might write down
void hold_memory(Peer& peer, Random& random);       ///< a large matrix in the header, and a readout now and then

}  // namespace echotrain::hostile
