package commandline

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestOf(t *testing.T) {
	for command, want := range map[string]string{
		"docker run -i --rm image":                            "0 image i rm",
		"/usr/local/bin/docker run --rm -i a/b:1 -i --name x": "0 a/b:1 i rm",
		"docker container run -it image":                      "1 image i",
		"docker --context far -H ssh://h run -i image":        "4 image i",
		"docker --tlsverify -D --config=/c run image":         "3 image",
		"podman --remote --runtime runc run -i x":             "3 x i",
		"podman -r --url=ssh://h container run -qi x":         "3 x i",
		"nerdctl -n k8s.io -a /run/c.sock run -i --rm x":      "4 x i rm",
		"docker run -e A -e B=1 -eC=2 -p8080:80 -i image -e":  "0 image i",
		"docker run -ie A image":                              "0 image i",
		"docker run -i=false --rm=false --interactive image":  "0 image i",
		"docker run --rm=true --name gh image":                "0 image rm name=gh",
		"docker run --name=gh --cidfile=/x/y image":           "0 image name=gh file=/x/y",
		"docker run --cidfile y -di image":                    "0 image i d file=y",
		"docker run -i -- image --rm":                         "0 image i",
		"docker run --mount type=bind,src=/a,dst=/b img /b":   "0 img",
		"docker run --new-option=3 -i img":                    "0 img i", // joined, so that it does not matter
		"podman run --rootfs -i /folder cmd":                  "0 /folder i",
		"docker run --pull always -i img":                     "0 img i",

		"docker run --new-option -i img":   "unknown --new-option",
		"docker run -iX img":               "unknown -X",
		"docker --new-option x run -i img": "unknown --new-option",
		"docker run -i --name":             "unknown --name",
		"docker run -i":                    "",
		"docker run":                       "",
		"docker":                           "",
		"docker exec -i name cmd":          "",
		"docker mcp gateway run":           "",
		"docker compose run x":             "",
		"docker --new-option exec -i x":    "",
		"docker start -ai run":             "",
		"sudo docker run -i img":           "",
		"sh -c docker run -i img":          "",
		"npx run":                          "",
		"dockerx run -i img":               "",
	} {
		words := strings.Fields(command)
		r, unknown := ContainerOf(words[0], words[1:])
		got := ""
		switch {
		case unknown != "":
			got = "unknown " + unknown
		case r != nil:
			got = fmt.Sprint(r.At, " ", r.Image)
			for _, part := range []struct {
				is   bool
				text string
			}{{r.Interactive, "i"}, {r.Detached, "d"}, {r.Remove, "rm"}, {r.Name != "", "name=" + r.Name}, {r.CIDFile != "", "file=" + r.CIDFile}} {
				if part.is {
					got += " " + part.text
				}
			}
		}
		expect.Equal(t, got, want, "%s", command)
	}
}

// No option is in the lists with and without a value.
func TestOptionsDiffer(t *testing.T) {
	for _, lists := range [][2]string{{switchesBefore, valuesBefore}, {switches, values}} {
		for _, option := range strings.Fields(lists[0]) {
			if has(lists[1], option) {
				t.Errorf("%s is in both lists", option)
			}
		}
	}
}

func TestStop(t *testing.T) {
	for command, want := range map[string]string{
		"docker run -i img":                             "[[stop -t 2]]",
		"docker --context far container run --rm img x": "[[--context far container stop -t 2] [--context far container rm -f -v]]",
	} {
		words := strings.Fields(command)
		r, _ := ContainerOf(words[0], words[1:])
		expect.Equal(t, fmt.Sprint(r.Stop(words[1:])), want, "%s", command)
	}
}

// An argument before the image is found as "run", for all arguments.
func FuzzOf(f *testing.F) {
	f.Add("run -i --rm img")
	f.Add("-H x container run -iePATH -- img")
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, " ")
		if r, unknown := ContainerOf("docker", args); r != nil && (unknown != "" || args[r.At] != "run") {
			t.Errorf("%q: %+v, %s", args, r, unknown)
		}
	})
}
