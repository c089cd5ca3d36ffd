package check

import (
	"cmp"

	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/prompt"
)

// model checks that this machine can ask an agent's model.
func (c *checker) model(a configs.Agent) {
	if c.Models == nil {
		return
	}
	model := cmp.Or(c.Model, a.Model)
	if _, _, err := c.Models.Open(model); err != nil {
		c.add(a, "model", Error, "%v", err)
	} else if variable := c.Models.MissingKey(model); variable != "" {
		c.add(a, "model", Warning, "%s has no API key: set %s, or api_key in config.toml", model, variable)
	}
	if unread, read := c.Models.UnreadAddress(model); unread != "" {
		c.add(a, "model", Warning, "%s is set, but axe reads %s: set that, or base_url in config.toml", unread, read)
	}
}

// skill checks that an agent's skill can be read.
func (c *checker) skill(a configs.Agent) {
	if _, err := prompt.ReadSkill(a.Skill); err != nil {
		c.add(a, "skill", Error, "%v", err)
	}
}

// files checks that an agent's files can be read, and that each pattern matches
// one.
func (c *checker) files(a configs.Agent) {
	_, unmatched, err := prompt.ReadFiles(a.Workdir, a.Files)
	if err != nil {
		c.add(a, "files", Error, "%v", err)
	}
	for _, pattern := range unmatched {
		c.add(a, "files", Warning, "%q matches no file in %s", pattern,
			cmp.Or(a.Workdir, "the current directory, as workdir is not set"))
	}
}
