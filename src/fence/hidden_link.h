/*
 * Files of the base that a rule hides under one name and that have another name, a hard link, where rules would show them. Such
 * a file is hidden under all its names: look-ups do not find it and listings leave it out.
 *
 * This is the one exception to the principle that answers depend only on the rules and on what is visible: whether a visible
 * name exists depends on a hidden one. The alternative would give out the hidden file's content.
 *
 * It costs nothing until a file with a link count above one is looked up. Then the thread that needs the answer walks the base
 * once, and records the device and inode number of each file with several names and whether one of them is hidden. From then on
 * such a look-up costs one in a hash table. The walk is repeated when the rules have changed, and when a file with several
 * names is met that it did not find, or whose ctime has changed since (link(2) changes it). A file that was shown before its
 * owner gave it a hidden name as well is shown until the kernel asks for it again: its content was no secret. Listings made
 * before the first walk may have named such a file, so the kernel is told to drop them.
 */
#pragma once

#include "fence/fence_int.h"

struct hidden_links;

struct hidden_links *hidden_links_new(struct fence *f);
void hidden_links_free(struct hidden_links *links); /* the session must still exist */

/* The rules have changed. [gate closed] */
void hidden_links_forget(struct fence *f);

/* Checks a file of the base. Returns 0, -ENOENT if it is hidden under another name, or the reason why that is unknown. [gate
 * held] */
int hidden_link_check(struct fence *f, const struct stat *st);

/* For listings: returns true if a name with this inode number, in a directory on the device, is known to be hidden. */
bool hidden_link_is_known(struct fence *f, dev_t dev, ino_t ino);

/* The number of walks over the base. */
uint64_t hidden_links_walks(const struct fence *f);

/* Returns true if any file is hidden in this way. */
bool hidden_links_any(const struct fence *f);
