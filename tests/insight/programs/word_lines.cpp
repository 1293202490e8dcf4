// Lines of text with the containers of the standard library: a line's words die with it, the index of all words stays.
#include <cstdio>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {

std::map<std::string, unsigned> index_of_words;

__attribute__((noinline)) void count_word(const std::string &word) { index_of_words[word]++; }

__attribute__((noinline)) std::size_t handle_line(const std::string &line) {
    std::istringstream in(line);
    std::vector<std::string> words;
    for (std::string word; in >> word;) {
        words.push_back(word + " is a word that needs memory");
    }
    std::map<std::string, int> here;
    for (const std::string &word : words) {
        here[word]++;
    }
    count_word(words.front());
    return here.size();
}

} // namespace

int main() {
    std::size_t sum = 0;
    for (unsigned i = 0; i < 4000; i++) {
        sum += handle_line("line" + std::to_string(i % 500) + " has a few words of which some come twice has a few");
    }
    std::printf("%zu %zu\n", sum, index_of_words.size());
}
