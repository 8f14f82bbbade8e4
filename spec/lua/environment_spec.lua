-- Tests that the library still works when scripts change Lua's globals or string methods.

local shell = require "spec.support.shell"
local torch = require "tlua"

local tlua = shell.start()

-- Runs a script whose argument is the path of a file. Returns the script's output.
local function run(script)
   return shell.with_folder(function(folder)
      shell.write(folder .. "/script.lua", script)
      return shell.ok(("%s %s %s"):format(tlua, shell.quote(folder .. "/script.lua"),
         shell.quote(folder .. "/model")))
   end)
end

local training <const> = [[
   local model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 2))
   local optimizer = optim.AdamW(model:parameters(), {lr = 0.1})
   local x, y = torch.randn(16, 4), torch.randint(1, 3, {16})
   for _ = 1, 3 do
      optimizer:zero_grad()
      nn.functional.cross_entropy(model(x), y):backward()
      optimizer:step()
   end
   torch.save(model:state_dict(), arg[1])
   model:load_state_dict(torch.load(arg[1]))
   local loader = torch.data.DataLoader(torch.data.TensorDataset(x, y), {batch_size = 4})
   local n = 0
   for _ in loader:iter() do n = n + 1 end
   local ok, message = pcall_(function() nn.Linear(3) end)
   write(n, " ", tostring_(ok), " ", message:match("nn%.Linear") or message, "\n")
]]

describe("the library's Lua files", function()
   it("do not use globals that a script has reassigned", function()
      assert.equal("4 false nn.Linear\n", run([[
         local out, pcall_, tostring_ = io.stdout, pcall, tostring
         local function write(...) out:write(...) end
         for name in pairs {assert = 1, error = 1, getmetatable = 1, ipairs = 1, next = 1, pairs = 1,
            pcall = 1, rawequal = 1, rawget = 1, rawset = 1, require = 1, select = 1, setmetatable = 1,
            tonumber = 1, tostring = 1, type = 1, table = 1, math = 1, string = 1, utf8 = 1, io = 1,
            os = 1, coroutine = 1, debug = 1, package = 1} do
            _G[name] = false
         end
      ]] .. training))
   end)

   it("do not use library functions that a script has replaced", function()
      assert.equal("4 false nn.Linear\n", run([[
         local out, pcall_, tostring_ = io.stdout, pcall, tostring
         local function write(...) out:write(...) end
         for _, library in ipairs {table, math, utf8, io, os} do
            for name in next, library do library[name] = nil end
         end
      ]] .. training))
   end)
end)

it("a string with a byte 0 is refused as a dtype, a device or an option", function()
   assert.raises([[zeros: dtype: expected a dtype such as "float32", got string 'float32\0...']],
      function() torch.zeros(2, {dtype = "float32\0abc"}) end)
   assert.raises("to: ", function() torch.zeros(2):to("float64\0") end)
   assert.raises("type: dtype: expected a dtype", function() torch.zeros(2):type("int8\0") end)
   assert.raises("device: expected a device", function() torch.zeros(2, {device = "cpu\0x"}) end)
   assert.raises("set_default_dtype", function() torch.set_default_dtype("float64\0") end)
   assert.raises("unknown option 'dtype", function() torch.zeros(2, {["dtype\0"] = "int8"}) end)
   assert.raises("unknown option 'keepdim", function() torch.zeros(2, 2):sum(1, {["keepdim\0"] = true}) end)
   assert.raises("reduction: expected a string without a byte 0",
      function() torch.nn.functional.mse_loss(torch.zeros(2), torch.zeros(2), {reduction = "sum\0"}) end)
   assert.raises("einsum: equation", function() torch.einsum("i,i->\0", torch.zeros(2), torch.zeros(2)) end)
   assert.has_error(function() return torch.zeros(2)["...\0"] + 1 end)
   assert.raises("index: item 1", function() return torch.zeros(2)[{"...\0"}] end)
end)
