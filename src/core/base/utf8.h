/* Characters of UTF-8. */
#ifndef TS_BASE_UTF8_H
#define TS_BASE_UTF8_H

/* Bytes of the character at `text`. 0: it is no character (also overlong, a surrogate, above U+10FFFF, or cut off by
   the end of the text). Reads no further than the zero that ends the text. A zero is a character of one byte. */
static inline unsigned ts_utf8_length(const char *text) {
    const unsigned char *s = (const unsigned char *)text;
    unsigned n = s[0] < 0x80                   ? 1
                 : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
                 : (s[0] & 0xf0) == 0xe0       ? 3
                 : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                               : 0;
    for (unsigned i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    if (n == 3 && ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f))) return 0;
    if (n == 4 && ((s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))) return 0;
    return n;
}

#endif
