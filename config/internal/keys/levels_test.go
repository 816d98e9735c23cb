package keys

import "testing"

func TestNearest(t *testing.T) {
	known := []string{"args", "capabilities", "command", "cwd", "disabled", "env", "envFile", "retry", "timeout", "tools", "type", "url"}
	for key, want := range map[string]string{
		"comand": "command", "Command": "command", "commnad": "command", "cmd": "command",
		"arg": "args", "agrs": "args", "arguments": "args", "enviroment": "env", "environment": "env",
		"envfile": "envFile", "disable": "disabled", "URL": "url", "uri": "url", "capabilites": "capabilities",
		"autoApprove": "", "alwaysAllow": "", "trust": "", "headersHelper": "", "oauth": "", "dev": "", "sandbox": "",
		"description": "", "source": "", "settings": "", "gallery": "", "version": "", "name": "", "tags": "", "roots": "",
		"protocolEra": "", "inputs": "", "_comment": "", "//": "", "icon": "", "": "",
	} {
		if got, _ := Nearest(key, known); got != want {
			t.Errorf("%q: got %q, want %q", key, got, want)
		}
	}
}
