#include "executor/ranks/handshake.h"

#include <array>
#include <cstring>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>

#include <boost/asio/read.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <sodium.h>

#include "core/base/error.h"

namespace tandem {

namespace asio = boost::asio;

namespace handshake {  // coroutines keep these: so it has a name

using Nonce = std::array<unsigned char, 32>;
using Proof = std::array<unsigned char, 32>;

/// What both sides have chosen at random, so that no proof serves twice.
struct Nonces {
  Nonce of_acceptor{}, of_connector{};
};

struct Introduction {
  std::array<char, 8> protocol{'t', 'a', 'n', 'd', 'e', 'm', ' ', '1'};
  ConnectionPurpose purpose;
  Nonce nonce{};
  Proof proof{};
};

inline Nonce random_nonce() {
  if (sodium_init() < 0) throw AbsentError("libsodium does not start");
  Nonce nonce;
  randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

/// A keyed hash (BLAKE2b) of who proves, what for, and both nonces. The key is of any length: its
/// own hash.
inline Proof proof_of(const std::string& secret, std::string_view side,
                      const ConnectionPurpose& purpose, const Nonces& nonces) {
  std::array<unsigned char, 32> key{};
  crypto_generichash(key.data(), key.size(), reinterpret_cast<const unsigned char*>(secret.data()),
                     secret.size(), nullptr, 0);
  crypto_generichash_state state;
  crypto_generichash_init(&state, key.data(), key.size(), std::tuple_size_v<Proof>);
  const auto add = [&state](const void* bytes, std::size_t size) {
    crypto_generichash_update(&state, static_cast<const unsigned char*>(bytes), size);
  };
  add(side.data(), side.size());
  add(&purpose.kind, sizeof(purpose.kind));
  add(&purpose.rank, sizeof(purpose.rank));
  add(&purpose.to, sizeof(purpose.to));
  add(&purpose.channel, sizeof(purpose.channel));
  add(nonces.of_acceptor.data(), nonces.of_acceptor.size());
  add(nonces.of_connector.data(), nonces.of_connector.size());
  Proof proof;
  crypto_generichash_final(&state, proof.data(), proof.size());
  return proof;
}

inline void check(const Proof& given, const Proof& expected) {
  if (sodium_memcmp(given.data(), expected.data(), given.size()) != 0)
    throw DeviceError("the other side does not know the run's secret");
}

}  // namespace handshake

asio::awaitable<void> introduce(asio::ip::tcp::socket& socket, const std::string& secret,
                                ConnectionPurpose purpose) {
  using namespace handshake;
  Nonces nonces{.of_acceptor = {}, .of_connector = random_nonce()};
  co_await asio::async_read(socket, asio::buffer(nonces.of_acceptor), asio::use_awaitable);
  Introduction introduction;
  introduction.purpose = purpose;
  introduction.nonce = nonces.of_connector;
  introduction.proof = proof_of(secret, "connects", purpose, nonces);
  co_await asio::async_write(socket, asio::buffer(&introduction, sizeof introduction),
                             asio::use_awaitable);
  Proof proof{};
  co_await asio::async_read(socket, asio::buffer(proof), asio::use_awaitable);
  check(proof, proof_of(secret, "accepts", purpose, nonces));
}

asio::awaitable<ConnectionPurpose> receive_introduction(asio::ip::tcp::socket& socket,
                                                        const std::string& secret) {
  using namespace handshake;
  Nonces nonces{.of_acceptor = random_nonce(), .of_connector = {}};
  co_await asio::async_write(socket, asio::buffer(nonces.of_acceptor), asio::use_awaitable);
  Introduction introduction;
  co_await asio::async_read(socket, asio::buffer(&introduction, sizeof introduction),
                            asio::use_awaitable);
  if (introduction.protocol != Introduction().protocol)
    throw DeviceError("the other side is no rank of this version");
  nonces.of_connector = introduction.nonce;
  check(introduction.proof, proof_of(secret, "connects", introduction.purpose, nonces));
  const Proof proof = proof_of(secret, "accepts", introduction.purpose, nonces);
  co_await asio::async_write(socket, asio::buffer(proof), asio::use_awaitable);
  co_return introduction.purpose;
}

}  // namespace tandem
