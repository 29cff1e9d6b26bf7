package cpu

import (
	"testing"
	"testing/fstest"
)

func TestGroupLimit(t *testing.T) {
	const v1 = "9223372036854771712\n" // none
	for _, c := range []struct {
		name  string
		files map[string]string
		want  int
	}{
		{"no groups", nil, 0},
		{"version 2", map[string]string{"proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "1000\n"}, 1000},
		{"version 2, no limit", map[string]string{"proc/self/cgroup": "0::/a\n",
			"sys/fs/cgroup/a/memory.max": "max\n"}, 0},
		{"version 2, around it", map[string]string{"proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "2000\n", "sys/fs/cgroup/a/memory.max": "500\n",
			"sys/fs/cgroup/memory.max": "3000\n"}, 500},
		{"version 2, container", map[string]string{"proc/self/cgroup": "0::/\n",
			"sys/fs/cgroup/memory.max": "700\n"}, 700},
		{"version 2, outside", map[string]string{"proc/self/cgroup": "0::/../b\n",
			"sys/fs/cgroup/memory.max": "700\n"}, 700},
		{"version 1", map[string]string{"proc/self/cgroup": "5:cpu:/c\n4:memory:/a\n0::/\n",
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "800\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":   v1,
			"sys/fs/cgroup/memory/c/memory.limit_in_bytes": "1\n"}, 800},
		{"version 1, path of the host", map[string]string{"proc/self/cgroup": "4:cpu,memory:/docker/0123\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "900\n"}, 900},
		{"nonsense", map[string]string{"proc/self/cgroup": "memory\n::\n0::a/b/../../..\n",
			"sys/fs/cgroup/memory.max": "many\n"}, 0},
	} {
		root := fstest.MapFS{}
		for name, text := range c.files {
			root[name] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := groupLimitOf(root); got != c.want {
			t.Errorf("%s: %d bytes, want %d", c.name, got, c.want)
		}
	}
}
