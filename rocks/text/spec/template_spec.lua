-- Compares rendered templates with jinja2's results, and tests chat templates of tokenizers.

local torch = require "tlua"
local Template, Tokenizer = torch.text.Template, torch.text.Tokenizer
local compare = dofile "rocks/text/spec/compare_templates.lua"
local shell = require "spec.support.shell"

local folder <const> = "rocks/text/spec/fixtures/templates/"

local function render(source, variables) return Template(source):render(variables) end

-- Checks that rendering a template raises the given error message.
local function fails(message, source, variables)
   assert.raises(message, function() Template(source):render(variables) end)
end

local function write(path, text)
   local file = assert(io.open(path, "wb"))
   file:write(text)
   file:close()
end

describe("text.Template", function()
   for _, name in ipairs(compare.kinds) do
      it("writes chats as jinja2 does: " .. name, function()
         local count, differences = compare.file(folder .. name .. ".cases", folder .. name .. ".jinja")
         assert.equal(5, count)
         assert.same({}, differences)
      end)
   end

   it("evaluates random templates as jinja2 does", function()
      local count, differences = compare.file(folder .. "random.cases")
      assert.is_true(count > 240)
      assert.same({}, differences)
   end)

   it("treats tables as lists and dicts", function()
      assert.equal("[1, 'a', None] {'role': 'user', 'content': 'x', 'b': 1.5, 'c': True}",
         render("{{ list }} {{ dict }}", {list = {1, "a", require "tlua.utils.json".null},
            dict = {content = "x", c = true, b = 1.5, role = "user"}}))
      assert.equal('{"b": 1, "a": [{}, []]}', render("{{ x | tojson }}", {x = Template.json '{"b": 1, "a": [{}, []]}'}))
      assert.equal("<Tensor>", render("{{ x }}", {x = torch.ones(2)}))
      assert.equal("<function>", render("{{ x }}", {x = print}))
   end)

   it("keeps white space that no split has removed, and the first undefined value", function()
      assert.equal("['  a', 'b'] ['a', 'b '] ['a', 'b']",
         render "{{ '  a b '.rsplit(none, 1) }} {{ ' a b '.split(none, 1) }} {{ ' a b '.rsplit(none, 2) }}")
      assert.equal("[Undefined, True]", render "{{ [x, true, y] | unique | list }}")
   end)

   it("formats negative integers and characters beyond ASCII as Python does", function()
      assert.equal("-ff -0xff -000ff -ff   |    -ff -0x000ff -10 -FF ff -00ff", render("{{ '%x %#x %06x %-6x| %6x "
         .. "%#08x %o %X %x %.4x' % (-255, -255, -255, -255, -255, -255, -8, -255, 255, -255) }}"))
      assert.equal("'\\xe9\\u2028\\U0001f600'", render("{{ '%a' % x }}", {x = "é\u{2028}😀"}))
   end)

   it("trims blocks as chat templates expect", function()
      assert.equal("a\nb\n  c\nd", render("a\n  {% if true %}\nb\n{% endif %}\n  {{ 'c' }}\n{#- x #}\n\nd" .. "\n"))
      assert.equal("x", render "x\n")
   end)

   it("names the line of an error", function()
      fails("text.Template: line 3 of the template: unknown tag 'endfor'", "a\n\n{% endfor %}")
      fails("text.Template: line 2 of the template: a tag is not closed, expected }}", "\n{{ x")
      fails("line 1 of the template: if is not closed, expected {% endif %}", "{% if x %}\n")
      fails("line 2 of the template: 'x' is undefined", "\n{{ x.y }}")
      fails("line 2 of the template: 'dict object' has no attribute 'y'", "\n{{ x.y.z }}", {x = {a = 1}})
      fails("line 1 of the template: there is no filter 'none'", "{{ 1 | none }}")
      fails("line 3 of the template: no such role", "\n{% if true %}\n{{ raise_exception('no such role') }}{% endif %}")
      fails("line 1 of the template: unsupported operand type(s) for +: 'int' and 'str'", "{{ 1 + 'a' }}")
      fails("'include' is not available in chat templates", "{% include 'x' %}")
   end)

   it("cannot reach Lua or change a value", function()
      fails("'os' is undefined", "{{ os.execute('ls') }}")
      fails("access to attribute '__index' of 'str' object is unsafe", "{{ ''.__index }}")
      fails("'dict object' has no attribute '__class__'", "{{ x['__class__']() }}", {x = {a = 1}})
      fails("access to attribute 'append' of 'list' object is unsafe", "{{ x.append(1) }}", {x = {1}})
   end)

   it("limits steps, depth and the size of texts", function()
      fails("the template takes more than 10000000 steps",
         "{% for a in range(99999) %}{{ range(9999) | list | length }}{% endfor %}")
      fails("calls are nested more than 150 deep", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}")
      fails("a text of more than 67108864 bytes", "{{ 'a' * 10 ** 12 }}")
      fails("nested more than 120 deep", "{{ " .. ("("):rep(500) .. (")"):rep(500) .. " }}")
      fails("an expression with more than 1000 parts", "{{ 1" .. (" or 1"):rep(5000) .. " }}")
      fails("an integer beyond 64 bits", "{{ 2 ** 64 }}")
      fails("Range too big", "{{ range(10 ** 9) }}")
   end)

   it("raises an error with a line for each damaged template", function()
      local file = assert(io.open(folder .. "llama31.jinja", "rb"))
      local source, failed = file:read "a", 0
      file:close()
      for length = 1, #source, 13 do
         local ok, why = pcall(Template, source:sub(1, length))
         if not ok then
            failed = failed + 1
            assert.matches("text.Template: line %d+ of the template: ", why)
         end
      end
      assert.is_true(failed > 300)
   end)
end)

describe("text.Tokenizer.apply_chat_template", function()
   local messages = {{role = "user", content = "low"}, {role = "assistant", content = "lower"}}

   local function tokenizer()
      local made = assert(Tokenizer.from_str(Tokenizer.example))
      made.chat_template = "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
         .. "{% endgeneration %}{% else %}{{ m.content }} {% endif %}{% endfor %}"
         .. "{% if add_generation_prompt %}low{% endif %}{{ extra }}"
      return made
   end

   it("returns texts and tokens", function()
      local made = tokenizer()
      assert.equal("low lowerlow", made:apply_chat_template(messages, {tokenize = false, add_generation_prompt = true}))
      local result = made:apply_chat_template(messages)
      assert.same({10, 11, 12}, result.input_ids)
      assert.same({1, 1, 1}, result.attention_mask)
      assert.same({0, 1, 1}, made:apply_chat_template(messages, {return_assistant_tokens_mask = true}).assistant_masks)
      assert.same({10, 11, 12}, made:apply_chat_template(messages, {return_dict = false}))
      assert.same({1, 3}, made:apply_chat_template(messages, {return_dict = false, return_tensors = "pt"}).shape)
      assert.equal("low lowe", made:apply_chat_template(messages,
         {tokenize = false, chat_template = "{{ messages[0].content }} lowe"}))
      assert.equal("low lower!", made:apply_chat_template(messages, {tokenize = false, extra = "!"}))
   end)

   it("continues the last message", function()
      local made = tokenizer()
      made.chat_template = "{% for m in messages %}{{ m.content | trim }}</s>{% endfor %}"
      assert.equal("low</s>lower",
         made:apply_chat_template(messages, {tokenize = false, continue_final_message = true}))
      assert.equal("low</s>a", made:apply_chat_template({messages[1], {role = "assistant", content = " a "}},
         {tokenize = false, continue_final_message = true}))
   end)

   it("takes batches, with padding and truncation", function()
      local made = tokenizer()
      made.special_tokens = {pad_token = "w"}
      local result = made:apply_chat_template({messages, {messages[1]}},
         {padding = true, truncation = true, max_length = 2, return_tensors = "pt"})
      assert.same({{10, 11}, {10, 8}}, result.input_ids:tolist())
      assert.is_nil(made.padding)
   end)

   it("reads a folder", shell.in_folder(function(place)
      write(place .. "/tokenizer.json", Tokenizer.example)
      write(place .. "/tokenizer_config.json", [[{"bos_token": {"content": "<s>"}, "eos_token": "</s>",
         "padding_side": "left", "unk_token": null, "chat_template": [
         {"name": "default", "template": "{{ bos_token }}"}, {"name": "tool_use", "template": "tools"}]}]])
      local made = assert(Tokenizer.from_pretrained(place))
      assert.equal("<s>", made:apply_chat_template(messages, {tokenize = false}))
      assert.equal("tools", made:apply_chat_template(messages, {tokenize = false, tools = {{name = "x"}}}))
      assert.equal("left", made.padding_side)
      write(place .. "/chat_template.jinja", "{{ eos_token }}")
      made = assert(Tokenizer.from_pretrained(place))
      assert.equal("</s>", made:apply_chat_template(messages, {tokenize = false}))
      write(place .. "/tokenizer_config.json", "{")
      local none, why = Tokenizer.from_pretrained(place)
      assert.is_nil(none)
      assert.matches("tokenizer_config.json: at byte", why, 1, true)
      none, why = Tokenizer.from_pretrained "/none"
      assert.is_nil(none)
      assert.matches("/none/tokenizer.json: No such file or directory; /none/tokenizer.model", why, 1, true)
   end))

   it("raises errors that name the mistake", function()
      local made = tokenizer()
      local function refused(message, list, options)
         assert.raises("text.Tokenizer.apply_chat_template: " .. message,
            function() made:apply_chat_template(list, options) end)
      end
      refused("messages: expected a list with at least one message, got a table", {})
      refused('messages: expected a list with at least one message, got "x"', "x")
      refused("messages[1]: expected a table with role and content, got 'low'", {"low"})
      refused("line 1 of the template: 'dict object' has no attribute 'role'", {{content = "x"}},
         {chat_template = "{{ 'a' + messages[0].role }}"})
      refused("line 1 of the template: a string is not closed", messages, {chat_template = "{{ ' }}"})
      refused("tools[1]: expected a table, got 1", messages, {tools = {1}})
      refused("continue_final_message: expected a last message with content", {{role = "user"}},
         {continue_final_message = true})
      refused("expected either continue_final_message or add_generation_prompt", messages,
         {continue_final_message = true, add_generation_prompt = true})
      refused("padding: expected a tokenizer with a pad_token", messages, {padding = true})
      refused("max_length: expected an integer, got nil", messages, {truncation = true})
      refused("sanitize_control_tokens is not supported", messages, {sanitize_control_tokens = true})
      refused("chat_template: expected a text, got 3", messages, {chat_template = 3})
      refused("messages: expected UTF-8, byte 1 of a text is not", {{role = "user", content = "\255"}})
      made.chat_template = nil
      refused("expected a chat_template: the tokenizer has none", messages)
      made.chat_template = {a = "", b = ""}
      refused("expected chat_template, one of a, b, since none is the default", messages)
   end)
end)
