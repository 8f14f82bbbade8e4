-- command.lua - the command `tlua chat model.gguf`, which holds a conversation with a language
-- model in the terminal.

local torch = require "tlua"
local repl = require "tlua.repl"
local suggest = require "tlua.utils.suggest"

local M = {}

local USAGE <const> = [[
usage: tlua chat model.gguf [options]
Talks with a language model. Ctrl-C ends an answer; between answers it ends the program.
  -p "text"            answers one text, and ends
  --system "text"      the system message
  --max-tokens n       the most tokens in an answer; 0, the default: as many as there is room for
  --temperature x, --top-k n, --top-p x, --min-p x, --repeat-penalty x, --seed n
  --ctx n              the most tokens in the conversation
  --threads n          the number of threads
  --device cuda        where the model runs
  --cache-type q8_0    stores keys and values in fewer bits: f32, f16 or q8_0
  --prompt-cache file  loads the keys and values of an earlier conversation from the file, if it
                       exists, and saves those of this one there at the end
  --draft model.gguf   a smaller model with the same tokens that proposes tokens; or prompt-lookup
  --perplexity file    prints the perplexity of the file's text, and ends; --ctx n: of n tokens
  --raw                continues the text itself, without the file's chat template
  --stats              prints the number of tokens per second
]]

local HELP <const> = [[
/help            these lines
/reset           begins a new conversation
/undo            removes the last question and its answer
/system text     sets the system message, and begins a new conversation
/set name value  sets temperature, top_k, top_p, min_p, repeat_penalty, max_tokens or seed
/save file       writes the conversation as text
/stats           switches the printing of tokens per second on or off
/quit            ends
A line that ends in \ is continued on the next one.
]]

-- Maps the command's options that take a number to the names of llm.Model's options.
local numbers <const> = {
   ["--max-tokens"] = "max_tokens", ["--temperature"] = "temperature", ["--top-k"] = "top_k",
   ["--top-p"] = "top_p", ["--min-p"] = "min_p", ["--repeat-penalty"] = "repeat_penalty",
   ["--seed"] = "seed", ["--ctx"] = "ctx", ["--threads"] = "threads",
}
local texts <const> = {["-p"] = "prompt", ["--prompt"] = "prompt", ["--system"] = "system",
   ["--device"] = "device", ["--cache-type"] = "cache_type", ["--prompt-cache"] = "prompt_cache",
   ["--draft"] = "draft", ["--perplexity"] = "perplexity"}
local flags <const> = {["--raw"] = "raw", ["--stats"] = "stats"}
local sampled <const> = {"max_tokens", "temperature", "top_k", "top_p", "min_p", "repeat_penalty",
   "seed"}

local function fail(text) error({usage = text}, 0) end

local function parse(words)
   local o, i = {max_tokens = 0}, 1
   while i <= #words do
      local word = words[i]
      if word == "--help" or word == "-h" then
         o.help = true
      elseif flags[word] then
         o[flags[word]] = true
      elseif numbers[word] or texts[word] then
         i = i + 1
         local value = words[i]
         if value == nil then fail(word .. ": expected a value") end
         if numbers[word] then
            value = tonumber(value)
            if not value then fail(("%s: expected a number, got %s"):format(word, words[i])) end
            value = math.tointeger(value) or value
         end
         o[numbers[word] or texts[word]] = value
      elseif word:sub(1, 1) == "-" then
         local known = {"--help"}
         for _, list in ipairs {numbers, texts, flags} do
            for name in pairs(list) do known[#known + 1] = name end
         end
         fail(("unknown option %s%s"):format(word, suggest.hint(word, known)))
      elseif o.path then
         fail("unexpected argument " .. word)
      else
         o.path = word
      end
      i = i + 1
   end
   return o
end

local function is_interrupt(problem)
   return tostring(problem):find("interrupted!", 1, true) ~= nil
end

-- Prints a part of an answer, and flushes standard output.
local function show(text)
   io.stdout:write(text)
   io.stdout:flush()
end

-- Prints the model's answer to the messages, which are formatted by the chat template. If `o.raw`
-- is set, the model continues the plain text instead. Returns the answer's text, and whether Ctrl-C
-- has ended the answer.
local function answer(llm, o, messages)
   local options, shown = {stream = nil}, {}
   for _, name in ipairs(sampled) do options[name] = o[name] end
   options.draft_model = o.draft_model
   function options.stream(text)
      shown[#shown + 1] = text
      show(text)
   end
   local start = torch.io.clock()
   repl.begin_line()
   local ok, result = pcall(function()
      if o.raw then return llm:create_completion(messages[#messages].content, options) end
      return llm:create_chat_completion(messages, options)
   end)
   repl.end_line(not ok and is_interrupt(result))
   show "\n"
   if not ok then
      if is_interrupt(result) then return table.concat(shown), true end
      error(result, 0)
   end
   if o.stats then
      local spent, usage = torch.io.clock() - start, result.usage
      io.stderr:write(("[%d + %d tokens, %.1f a second]\n"):format(usage.prompt_tokens,
         usage.completion_tokens, usage.completion_tokens / math.max(spent, 1e-9)))
   end
   return table.concat(shown), false
end

-- Conversations ---------------------------------------------------------------------------------

local function begin(o)
   local list = {}
   if o.system and o.system ~= "" then list[1] = {role = "system", content = o.system} end
   return list
end

local commands = {}

function commands.help() show(HELP) end
function commands.quit() return true end
commands.exit, commands.bye = commands.quit, commands.quit

function commands.reset(_, state) state.messages = begin(state.o) end

function commands.undo(_, state)
   local list = state.messages
   while #list > 0 and list[#list].role ~= "user" do list[#list] = nil end
   if #list > 0 and list[#list].role == "user" then list[#list] = nil end
end

function commands.system(text, state)
   state.o.system = text
   state.messages = begin(state.o)
end

function commands.stats(_, state) state.o.stats = not state.o.stats end

function commands.set(text, state)
   local name, value = text:match "^(%S+)%s+(%S+)$"
   local number = tonumber(value)
   for _, known in ipairs(sampled) do
      if known == name and number then
         state.o[name] = math.tointeger(number) or number
         return
      end
   end
   show(("expected one of %s, and a number\n"):format(table.concat(sampled, ", ")))
end

function commands.save(path, state)
   if path == "" then return show "/save: expected the name of a file\n" end
   local file, why = io.open(path, "w")
   if not file then return show(tostring(why) .. "\n") end
   local lines = {}
   for i, message in ipairs(state.messages) do
      lines[i] = ("%s: %s\n\n"):format(message.role, message.content)
   end
   local written, problem = file:write(table.concat(lines))
   local closed, later = file:close()
   if not written or not closed then show(("%s: %s\n"):format(path, problem or later)) end
end

-- Reads a line. If it ends in a backslash, the next line is read too, and so on. Returns nil at the
-- end of the input.
local function read_line()
   show "> "
   local parts = {}
   while true do
      local line = io.read "l"
      if not line then return #parts > 0 and table.concat(parts, "\n") or nil end
      if line:sub(-1) ~= "\\" then
         parts[#parts + 1] = line
         return table.concat(parts, "\n")
      end
      parts[#parts + 1] = line:sub(1, -2)
   end
end

-- Runs a command of the conversation, such as /help. Returns whether the conversation ends.
local function run_command(line, state)
   local name, rest = line:match "^/(%S*)%s*(.*)$"
   local command = commands[name]
   if not command then
      show(("there is no /%s%s; /help lists the commands\n"):format(name,
         suggest.hint(name, commands)))
      return false
   end
   return command(rest, state)
end

local function converse(llm, o)
   local state = {o = o, messages = begin(o)}
   show(("%s\n/help lists the commands.\n"):format(tostring(llm)))
   while true do
      local ok, line = pcall(read_line)
      if not ok and not is_interrupt(line) then error(line, 0) end
      if not ok or not line then
         show "\n"
         return
      end
      if line:sub(1, 1) == "/" then
         if run_command(line, state) then return end
      elseif line:find "%S" then
         table.insert(state.messages, {role = "user", content = line})
         local done, text = pcall(answer, llm, o, state.messages)
         if done then
            table.insert(state.messages, {role = "assistant", content = text})
         else
            state.messages[#state.messages] = nil
            io.stderr:write(tostring(text), "\n")
         end
      end
   end
end

-- Calls a function. If it raises an error, the command ends with the error's message.
local function attempt(fn, ...)
   local results = table.pack(pcall(fn, ...))
   if results[1] then return table.unpack(results, 2, results.n) end
   error({failure = (tostring(results[2]):gsub("^[^\n]-llm%.[%a_.]+: ", ""))}, 0)
end

local function print_perplexity(llm, o)
   local file <close>, why = io.open(o.perplexity, "rb")
   if not file then error({failure = why}, 0) end
   local text = file:read "a"
   attempt(function()
      local value, uncertainty, count = llm:perplexity(text, {n_ctx = o.ctx})
      show(("perplexity %.4f +/- %.4f (%d tokens)\n"):format(value, uncertainty, count))
   end)
   return true
end

local function save_cache(llm, o)
   if o.prompt_cache and llm.scheduler:cached() > 0 then
      attempt(llm.save_state, llm, o.prompt_cache)
   end
end

local function run(words)
   local o = parse(words)
   if o.help or not o.path then
      (o.help and io.stdout or io.stderr):write(USAGE)
      return o.help or false
   end
   if o.threads then torch.set_num_threads(o.threads) end
   local llm = attempt(torch.llm.load, o.path, {n_ctx = not o.perplexity and o.ctx or nil,
      device = o.device, cache_type = o.cache_type})
   if o.perplexity then return print_perplexity(llm, o) end
   if o.draft == "prompt-lookup" then
      o.draft_model = "prompt_lookup"
   elseif o.draft then
      o.draft_model = attempt(torch.llm.load, o.draft, {n_ctx = o.ctx, device = o.device})
   end
   local cached <close> = o.prompt_cache and io.open(o.prompt_cache) or nil
   if cached then attempt(llm.load_state, llm, o.prompt_cache) end
   if not llm.tokenizer.chat_template then o.raw = true end
   if o.prompt then
      local messages = begin(o)
      table.insert(messages, {role = "user", content = o.prompt})
      local _, interrupted = attempt(answer, llm, o, messages)
      save_cache(llm, o)
      return not interrupted
   end
   converse(llm, o)
   save_cache(llm, o)
   return true
end

--- Runs `tlua chat` with the arguments that follow the command's name.
---@param words string[]
---@return boolean  whether the command succeeded
function M._chat(words)
   local ok, result = pcall(run, words)
   if ok then return result end
   if type(result) == "table" and result.failure then
      io.stderr:write(("tlua chat: %s\n"):format(result.failure))
      return false
   end
   if type(result) == "table" and result.usage then
      io.stderr:write(("tlua chat: %s\n%s"):format(result.usage, USAGE))
      return false
   end
   error(result, 0)
end

M.command = M._chat

return M
