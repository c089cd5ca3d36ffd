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
}

// skill checks that an agent's skill can be read.
func (c *checker) skill(a configs.Agent) {
	if _, err := prompt.ReadSkill(a.Skill); err != nil {
		c.add(a, "skill", Error, "%v", err)
	}
}

// files checks each pattern of an agent's files, and then all of them together.
func (c *checker) files(a configs.Agent) {
	for _, pattern := range a.Files {
		files, err := prompt.ReadFiles(a.Workdir, []string{pattern})
		if err != nil {
			c.add(a, "files", Error, "%v", err)
			return
		}
		if len(files) == 0 {
			c.add(a, "files", Warning, "%q matches no text file in %s", pattern,
				cmp.Or(a.Workdir, "the current directory, as workdir is not set"))
		}
	}
	if len(a.Files) > 1 {
		if _, err := prompt.ReadFiles(a.Workdir, a.Files); err != nil {
			c.add(a, "files", Error, "%v", err)
		}
	}
}
