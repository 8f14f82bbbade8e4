-- command.lua - `tlua serve PATH`: serves models over HTTP.

local torch = require "tlua"
local suggest = require "tlua.utils.suggest"
local settings_of = require "tlua.serve.settings"

local M = {}

local USAGE <const> = [[
usage: tlua serve PATH [options]
Serves a program (model.tlp), a language model (its folder or a GGUF file), a model in Lua
(model.lua), or a folder of models, NAME/VERSION/model.tlp, over HTTP: the Open Inference Protocol
v2 at /v2, OpenAI's protocol at /v1, metrics at /metrics, and a page at /. The server loads new
versions while it runs; on SIGTERM it answers all open requests and ends.
  --port 8000            the port; 0: any free one
  --address 127.0.0.1    the address on which it listens; 0.0.0.0: all
  --token TEXT           a bearer token that clients need; several may be given
  --token-file PATH      a file with a token on each line
  --certificate PATH     TLS: a file with the certificates
  --key PATH             TLS: a file with the private key
  --access-log PATH      a file that gets a line for each request; -: standard output
  --max-batch-size 32    the most examples in a run
  --max-queue-delay 0    seconds for which the first request of a run waits for others
  --queue 1024           the most requests that wait for a model; further ones get 429
  --timeout 60           seconds until a request's deadline
  --instances 1          threads of each model
  --threads N            threads that compute a run
  --device NAME          where programs run
  --cache-type f32       language models' cached keys and values: f32, f16 or q8_0
  --draft-model FILE     proposes tokens for a GGUF file; prompt_lookup: earlier tokens of the text
  --versions latest      latest or all
  --http-threads 1       threads that read and write
  --max-body BYTES       --max-connections N   --idle-timeout S   --receive-timeout S
  --poll 1               seconds between two checks of the folder for new versions
  --grace 30             seconds for answering open requests after SIGTERM
  --fixed                clients cannot load and unload models
  --quiet                prints no messages
]]

local function fail(text) error({usage = text}, 0) end

local function value_of(name, text)
   if name == "versions" or name == "address" or name == "key" or name == "certificate"
      or name == "access_log" or name == "device" or name == "cache_type"
      or name == "draft_model" then
      return text
   end
   local number = tonumber(text)
   if not number then
      fail(("--%s: expected a number, got %s"):format(name:gsub("_", "-"), text))
   end
   return number
end

local function read_tokens(path, tokens)
   local file <close>, message = io.open(path, "r")
   local text
   if file then
      text, message = file:read "a"
      message = message and path .. ": " .. message
   end
   if not text then fail("--token-file: cannot read " .. message) end
   local before = #tokens
   for line in text:gmatch "[^\r\n]+" do
      line = line:match "^%s*(.-)%s*$"
      if line ~= "" then tokens[#tokens + 1] = line end
   end
   -- A file without tokens is an error, because a server without tokens would answer everybody.
   if #tokens == before then
      fail(("--token-file: expected a token on each line of %s, got none"):format(path))
   end
end

-- Parses a command line. Returns the path and the options.
local function read(words)
   local path, options, tokens = nil, {}, {}
   local i = 1
   while i <= #words do
      local word = words[i]
      local name, given = word:match "^%-%-([%w-]+)=?(.*)$"
      if not name then
         if path then fail("expected one path, got also " .. word) end
         path = word
      else
         local option = name:gsub("-", "_")
         local has_value = word:find "="
         if settings_of.is_switch(option) then
            if has_value then fail(("--%s: expected no value, got %s"):format(name, given)) end
            options[option] = true
         else
            if not has_value then
               i = i + 1
               given = words[i] or fail(("--%s: expected a value"):format(name))
            end
            if option == "token" then
               tokens[#tokens + 1] = given
            elseif option == "token_file" then
               read_tokens(given, tokens)
            else
               local names, fine = settings_of.names(), false
               for k, known in ipairs(names) do
                  fine = fine or known == option
                  names[k] = known:gsub("_", "-")
               end
               if not fine or option == "tokens" or option == "outputs" then
                  fail(("unknown option --%s%s"):format(name, suggest.hint(name, names)))
               end
               options[option] = value_of(option, given)
            end
         end
      end
      i = i + 1
   end
   if not path then fail "expected the path of models" end
   if #tokens > 0 then options.tokens = tokens end
   return path, options
end

--- Runs `tlua serve` with a list of arguments. Returns whether it succeeded.
---@param words string[]
---@return boolean
function M.command(words)
   if words[1] == "--help" or words[1] == "-h" then
      io.write(USAGE)
      return true
   end
   local ok, path, options = pcall(read, words)
   if not ok then
      if type(path) ~= "table" or not path.usage then error(path, 0) end
      io.stderr:write("tlua serve: ", path.usage, "\n", USAGE)
      return false
   end
   local fine, message = pcall(torch.serve.run, path, options)
   if not fine then
      io.stderr:write("tlua serve: ", tostring(message):gsub("^[^\n]-serve[.%a]*: ", ""), "\n")
   end
   return fine
end

return M
