package selector

import (
	"testing"

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// Tools that are described in a task's own language are found by its words.
func TestFindInItsLanguage(t *testing.T) {
	var tools []registry.NormalizedTool
	described := map[string]string{
		"t1": "生成发票", "t2": "查询北京的天气", "t3": "删除分支", "t4": "发送邮件给客户", "t5": "Fahrrad ausleihen", "t6": "Kundentermin im Kalender verschieben", "t7": "Sendung beim Zusteller verfolgen",
	}
	for name, text := range described {
		tools = append(tools, registry.NormalizedTool{ID: "s:" + name, Server: "s", Name: name, Description: text})
	}
	all := registry.New()
	all.Replace("s", registry.Offer{Tools: tools})
	s := New(all, Options{})
	for task, want := range map[string]string{"生成发票": "s:t1", "北京": "s:t2", "发送邮件": "s:t4", "ein Fahrrad ausleihen": "s:t5", "einen Kundentermin verschieben": "s:t6", "wo ist meine Sendung beim Zusteller": "s:t7"} {
		r, err := s.Find(t.Context(), Query{Task: task})
		expect.OK(t, err)
		if len(r.Candidates) == 0 || r.Candidates[0].Tool.ID != want {
			t.Errorf("%s: %v, want %s", task, r.Candidates, want)
		}
	}
	for name, text := range map[string]string{"delete_files": "ลบไฟล์ทั้งหมด", "weather": "Погода на завтра", "translate": "Перевести текст на другой язык", "invoice": "송장 만들기"} {
		tools = append(tools, registry.NormalizedTool{ID: "s:" + name, Server: "s", Name: name, Description: text})
	}
	_, err := all.Replace("s", registry.Offer{Tools: tools})
	expect.OK(t, err)
	for _, task := range []string{"ส่งอีเมล", "отправить письмо", "이메일 보내기", "погода на сегодня"} { // letters that the encoder does not know
		r, err := s.Find(t.Context(), Query{Task: task})
		if err != nil || r.Sure || r.By == byRanking {
			t.Errorf("%s: by %s, sure %v: %s, %v", task, r.By, r.Sure, shown(r), err)
		}
	}
	if r, err := s.Find(t.Context(), Query{Task: "say this in French"}); err != nil || r.By != byRanking || r.Candidates[0].Tool.Name != "translate" {
		t.Errorf("a tool is not found by its name: %s, %v", shown(r), err)
	}
}
