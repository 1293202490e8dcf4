/* Documents: one function builds a tree, another frees it, a third does both for each document. */
#include "common.h"

typedef struct Node {
    struct Node *child[4];
    char *name;
} Node;

FUNCTION static Node *parse_node(unsigned depth) {
    Node *node = get(sizeof *node);
    node->name = get(8 + random_below(24));
    for (unsigned i = 0; i < 4; i++) {
        node->child[i] = depth ? parse_node(depth - 1) : NULL;
    }
    return node;
}

FUNCTION static void free_tree(Node *node) {
    for (unsigned i = 0; i < 4; i++) {
        if (node->child[i]) {
            free_tree(node->child[i]);
        }
    }
    free(node->name);
    free(node);
}

FUNCTION static unsigned count_names(const Node *node) {
    unsigned count = 1;
    for (unsigned i = 0; i < 4; i++) {
        count += node->child[i] ? count_names(node->child[i]) : 0;
    }
    return count;
}

FUNCTION static unsigned convert_document(void) {
    Node *tree = parse_node(4);
    unsigned count = count_names(tree);
    free_tree(tree);
    return count;
}

int main(void) {
    unsigned sum = 0;
    for (unsigned i = 0; i < 200; i++) {
        sum += convert_document();
    }
    printf("%u\n", sum);
    return 0;
}
