// Actors with mailboxes: a message lives from its sending to its handling by another actor, so no call has its whole
// life but the round in which all mailboxes are emptied.
#include <cstdio>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace {

struct Message {
    std::string text;
    unsigned hops;
};

struct Actor {
    std::deque<std::unique_ptr<Message>> mailbox;
};

std::vector<Actor> actors(16);

__attribute__((noinline)) void send(unsigned to, unsigned hops) {
    actors[to % actors.size()].mailbox.push_back(
        std::make_unique<Message>(Message{std::string(40, static_cast<char>('a' + hops % 26)), hops}));
}

__attribute__((noinline)) void handle(unsigned actor, std::unique_ptr<Message> message) {
    if (message->hops) {
        send(actor * 7 + 3, message->hops - 1);
        send(actor * 5 + 1, message->hops / 2);
    }
}

__attribute__((noinline)) unsigned run_round() {
    unsigned handled = 0;
    for (unsigned i = 0; i < actors.size(); i++) {
        send(i, 5);
    }
    for (bool any = true; any;) {
        any = false;
        for (unsigned i = 0; i < actors.size(); i++) {
            while (!actors[i].mailbox.empty()) {
                auto message = std::move(actors[i].mailbox.front());
                actors[i].mailbox.pop_front();
                handle(i, std::move(message));
                handled++;
                any = true;
            }
        }
    }
    return handled;
}

} // namespace

int main() {
    unsigned sum = 0;
    for (int i = 0; i < 300; i++) {
        sum += run_round();
    }
    std::printf("%u\n", sum);
}
