/*
 * Files of the base that a rule hides under one name and that have another name, a hard link, where rules would show them. Such a file is
 * hidden under all its names: to whoever asks for one of them it is not there, and listings leave it out.
 *
 * This is the one exception to "any answer is a function of the rules and the visible state": whether a visible name is there depends on a
 * hidden one. The alternative would hand out the hidden file's content.
 *
 * Nobody pays until a file with a link count above one is looked up. Then the base is walked once, in the thread that needs the answer, and
 * the device and inode number of every file with several names is kept, with whether one of them is hidden; from then on each such look-up
 * costs a look into a hash table. The walk is repeated when the rules have changed, and when a file with several names is met that it did not
 * find, or whose ctime has changed since, as link(2) changes it. A file that was shown before its owner gave it a hidden name as well goes on being shown until the kernel asks for it
 * anew: its content was no secret. Listings made before the first walk may have named such a file: the kernel is told to forget them.
 */
#pragma once

#include "fence/fence_int.h"

struct hidden_links;

struct hidden_links *hidden_links_new(struct fence *f);
void hidden_links_free(struct hidden_links *links); /* while the session is there still */

/* The rules have changed. The gate is closed. */
void hidden_links_forget(struct fence *f);

/* Of what the base has: 0, -ENOENT where it is hidden under another name, or why that cannot be known. The gate is held. */
int hidden_link_check(struct fence *f, const struct stat *st);

/* For listings: whether a name with this inode number, in a directory of the device, is known to be hidden. */
bool hidden_link_is_known(struct fence *f, dev_t dev, ino_t ino);

/* How many times the base was walked. */
uint64_t hidden_links_walks(const struct fence *f);

/* Whether any is. */
bool hidden_links_any(const struct fence *f);
