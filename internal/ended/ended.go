// Package ended is the table of commands and keys that metarouter no longer has. Each says in one line
// why it ended and what to do instead. An old command prints its line and exits with 2; an old key of a
// configuration is a warning and has no effect.
package ended

import "sync"

// Commands returns the lines of the commands, by name.
func Commands() map[string]string {
	return map[string]string{
		"eval":  "eval ended: it is a tool of the repository; in a clone, run 'go -C tools run ./eval -help'",
		"plan":  "plan ended: metarouter no longer compares configurations; run 'metarouter check --config FILE'",
		"usage": "usage ended: metarouter no longer learns from use; nothing replaces it",
	}
}

// Keys returns the lines of the keys, by path in a configuration file, such as "metarouter.http.addr".
var Keys = sync.OnceValue(func() map[string]string {
	all := map[string]string{
		"metarouter.assist":           "assist ended: metarouter asks no model to choose a tool; remove the key",
		"metarouter.embeddings":       "embeddings ended: metarouter always uses the sentence encoder in the program; remove the key",
		"metarouter.fillArguments":    "fillArguments ended: route_task names the missing arguments and asks nobody; remove the key",
		"metarouter.learning":         "learning ended: metarouter no longer learns from use; remove the key",
		"metarouter.http.maxBatch":    "maxBatch ended: a batch has at most 100 messages; remove the key",
		"metarouter.http.readTimeout": "readTimeout ended: a body has 10 s and 1 s for each 8 KiB, at most 1 minute; remove the key",
	}
	for _, key := range []string{"type", "server", "url", "headers", "tools", "timeout", "max_retries", "cache_categories", "refresh_interval", "num_categories"} {
		all["metarouter.classification."+key] = key + " ended: the built-in classifier sorts all texts; write \"categories\" with examples, and remove the key"
	}
	return all
})
