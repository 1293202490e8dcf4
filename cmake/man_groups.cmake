# Man pages by group, cut from man/tslab.3: the group's part of SYNOPSIS and of DESCRIPTION, or a section of its own, with a program of
# examples/recipes as the example. Sets tslab_man_groups, and for each tslab_man_names_GROUP, the functions in its synopsis.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS man/tslab.3)
file(READ man/tslab.3 man_text)
set(tslab_man_groups "")

# The text behind the first `mark` of `text` up to the next line that begins a section; "" if there is none.
function(tslab_man_part text mark out)
    set(${out} "" PARENT_SCOPE)
    string(FIND "${text}" "\n${mark}\n" at)
    if(at EQUAL -1)
        return()
    endif()
    string(LENGTH "\n${mark}\n" length)
    math(EXPR at "${at} + ${length}")
    string(SUBSTRING "${text}" ${at} -1 rest)
    string(REGEX MATCH "\n\\.S[SH] " next "${rest}")
    string(FIND "${rest}" "${next}" end)
    string(SUBSTRING "${rest}" 0 ${end} rest)
    set(${out} "${rest}" PARENT_SCOPE)
endfunction()

function(tslab_man_group group heading what example)
    string(FIND "${man_text}" "\n.SH DESCRIPTION\n" at)
    string(SUBSTRING "${man_text}" ${at} -1 behind)
    tslab_man_part("${man_text}" ".SS ${heading}" synopsis)
    tslab_man_part("${behind}" ".SS ${heading}" description)
    if(NOT description)
        string(TOUPPER "${heading}" section)
        tslab_man_part("${behind}" ".SH ${section}" description)
    endif()
    if(NOT description)
        message(FATAL_ERROR "man/tslab.3: no text of ${heading}")
    endif()
    string(REGEX MATCHALL "[a-z0-9_]+\\(" names "${synopsis}")
    list(TRANSFORM names REPLACE "\\($" "")
    set(title "")
    foreach(name IN LISTS names)
        if(name IN_LIST tslab_api_names)
            list(APPEND title ${name})
        endif()
    endforeach()
    set(names ${title})
    list(JOIN title ", " title)
    if(NOT title)
        set(title slab_options)
        set(synopsis ".nf\n.B SlabOptions options = { .size = sizeof options };\n.BI \"SlabAllocator *slab_allocator_create_ex(const SlabOptions *\" options );\n.fi")
    endif()
    file(READ examples/recipes/${example}.c program)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS examples/recipes/${example}.c)
    string(REPLACE "\\" "\\e" program "${program}")
    string(REPLACE "-" "\\-" program "${program}")
    string(REGEX REPLACE "\n([.'])" "\n\\\\&\\1" program "${program}")
    string(TOUPPER "tslab-${group}" upper)
    file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/man3/tslab-${group}.3 ".\\\" Made from man/tslab.3 and examples/recipes/${example}.c
.TH ${upper} 3 \"\" \"temporal-slab\" \"Library Functions Manual\"
.SH NAME
${title} \\- ${what}
.SH SYNOPSIS
.nf
.B #include <tslab/tslab.h>
.B #include <tslab/stats.h>
.fi
.PP
${synopsis}
.SH DESCRIPTION
${description}
.SH EXAMPLES
.EX
${program}.EE
.SH SEE ALSO
.BR tslab (3),
which has the errors, and what misuse is
")
    set(tslab_man_groups ${tslab_man_groups} ${group} PARENT_SCOPE)
    set(tslab_man_names_${group} ${names} PARENT_SCOPE)
endfunction()

tslab_man_group(allocators "Allocators" "allocators of temporal-slab" options)
tslab_man_group(objects "Objects" "objects of temporal-slab" walk)
tslab_man_group(handles "Handles" "values that name an object for ever" token)
tslab_man_group(epochs "Epochs" "lifetimes" configuration)
tslab_man_group(domains "Domains" "lifetimes that a thread enters and leaves" attempt)
tslab_man_group(memory "Memory on demand" "memory ahead, back, and limited" rest)
tslab_man_group(messages "Messages" "what temporal-slab says" limit)
tslab_man_group(statistics "Statistics" "what temporal-slab knows of itself" who)
tslab_man_group(options "Options" "options of an allocator" options)
