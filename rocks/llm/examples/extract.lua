-- extract.lua - extracts facts from texts. A language model answers in JSON that obeys a schema,
-- and each answer is printed as a row of a table.
--
--    tlua rocks/llm/examples/extract.lua model.gguf ["text" ...]

local torch = require "tlua"
local json = require "tlua.utils.json"

local path = arg[1]
if not path then
   io.stderr:write "usage: tlua extract.lua model.gguf [text ...]\n"
   os.exit(2)
end

local texts = {table.unpack(arg, 2)}
if #texts == 0 then
   texts = {"Anna is 31 and lives in Rome.", "In Oslo we met Ben, who had just turned 8."}
end

local llm = torch.llm.load(path)
local schema = {
   type = "object",
   properties = {
      name = {type = "string", minLength = 1, maxLength = 24},
      age = {type = "integer"},
      city = {type = "string", minLength = 1, maxLength = 24},
   },
   required = {"name", "age", "city"},
}

for _, text in ipairs(texts) do
   local question = "Who is it, how old, and where? Answer in JSON.\n" .. text
   local answer = llm:create_chat_completion({{role = "user", content = question}}, {
      temperature = 0, max_tokens = 200,
      response_format = {type = "json_object", schema = schema},
   })
   local choice = answer.choices[1]
   local facts = choice.finish_reason == "stop" and json.decode(choice.message.content)
   if facts then
      print(("%s\t%d\t%s"):format(facts.name, facts.age, facts.city))
   else
      print("no answer within 200 tokens to: " .. text)
   end
end
