-- Serves a program that export.lua has saved, and asks the server for digits as any client would:
--
--    tlua examples/deploy/serve.lua digits.tlp
local torch = require "tlua"
local http = require "tlua.utils.http"
local json = torch.utils.json

local here = arg[0]:match "^(.*)/" or "."
local path = arg[1] or "digits.tlp"

local rows = torch.data.CSV(here .. "/../data/digits.csv", {header = false}):tensor()
local images = rows:narrow(2, 1, 64):float():div(16):view(-1, 1, 8, 8)
local classes = rows:select(2, 65) + 1

local server <close> = torch.serve.start(path, {port = 0, max_batch_size = 200, quiet = true})
local address = "http://127.0.0.1:" .. server.port

local about
repeat -- repeats the request until the server has loaded the model
   about = http.request("GET", address .. "/v2/health/ready")
until about.status == 200
local index = http.request("POST", address .. "/v2/repository/index", {body = "{}"})
local name = json.decode(index.body)[1].name
local infer = ("%s/v2/models/%s/infer"):format(address, name)

local right, largest = 0, 0
local program = torch.export.load(path)
for first = 1, #images, 200 do
   local n = math.min(200, #images - first + 1)
   local part = images:narrow(1, first, n)
   local input = {
      name = "input", datatype = "FP32", shape = json.as_array {n, 1, 8, 8},
      data = json.as_array(part:reshape(-1):tolist()),
   }
   local body = {inputs = json.as_array {input}}
   local answer = http.request("POST", infer, {body = json.encode(body)})
   assert(answer.status == 200, answer.body)
   local scores = torch.tensor(json.decode(answer.body).outputs[1].data):view(n, 10)
   right = right + scores:argmax(2):eq(classes:narrow(1, first, n)):sum():item()
   largest = math.max(largest, (scores - program(part)):abs():max():item())
end
print(("%d of %d digits read right over HTTP; scores differ from the program's by at most %g")
   :format(right, #images, largest))
