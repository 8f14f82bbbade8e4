-- Tests debuggers written in Lua, such as MobDebug. A debugger sets a hook for calls, lines and returns of the main
-- thread. Inside the hook, a coroutine communicates over a socket with the process that controls the debugger. A
-- debugger must be able to stop wherever the program's Lua code runs, including code that the engine calls. The spec
-- tests a stub that works like MobDebug and, if it is installed, MobDebug itself.

local torch = require "tlua"
local shell = require "spec.support.shell"

local seconds <const> = 60 -- how many seconds to wait for the other process

-- The stub runs in the debugged program. It sets the breakpoints that arg lists, and obeys commands at each stop.
local stub <const> = [[
local socket = assert(torch._connect("127.0.0.1", math.tointeger(os.getenv "DEBUG_PORT"), 30))
local breakpoints, stepping = {}, false
for line in os.getenv("DEBUG_LINES"):gmatch "%d+" do breakpoints[math.tointeger(line)] = true end
local pending = ""
local function command()
   while not pending:find "\n" do pending = pending .. assert(socket:take(30)) end
   local line, rest = pending:match "^([^\n]*)\n(.*)$"
   pending = rest
   return line
end
local function say(text) assert(socket:send(text .. "\n")) end

-- Returns a table that maps names of variables in the stopped function to their values.
local function seen(level)
   local names = setmetatable({}, {__index = _G})
   local fn = debug.getinfo(level, "f").func
   for i = 1, math.huge do
      local name, value = debug.getupvalue(fn, i)
      if not name then break end
      if name ~= "_ENV" then names[name] = value end
   end
   for i = 1, math.huge do
      local name, value = debug.getlocal(level, i)
      if not name then break end
      names[name] = value
   end
   return names
end

local talk = coroutine.wrap(function(where, names, stack)
   while true do
      say(where)
      while true do
         local word, rest = command():match "^(%S+) ?(.*)$"
         if word == "EVAL" then
            local fn = assert(load("return tostring(" .. rest .. ")", "=eval", "t", names))
            say(tostring(select(2, pcall(fn))))
         elseif word == "STACK" then
            say(stack)
         else
            stepping = word == "STEP"
            break
         end
      end
      where, names, stack = coroutine.yield()
   end
end)

local busy = false
debug.sethook(function(event, line)
   if event ~= "line" or busy or not (stepping or breakpoints[line]) then return end
   local info = debug.getinfo(2, "Sn")
   if not info.source:find "program.lua$" then return end
   busy = true
   talk(("%d %s"):format(line, info.name or "?"), seen(3), (debug.traceback("", 2):gsub("\n", "|")))
   busy = false
end, "lcr")
]]

local program <const> = [[
if os.getenv "DEBUG_PORT" then dofile(os.getenv "DEBUG_STUB") end
torch.manual_seed(5)
local Net = torch.class("Net", nn.Module)
function Net:__init()
   self.linear = nn.Linear(3, 2)
end
function Net:forward(x)
   local y = self.linear(x) --> forward
   return y:tanh()
end
local Twice = torch.class("Twice", torch.autograd.Function)
function Twice.forward(ctx, x)
   return x * 2 --> function forward
end
function Twice.backward(ctx, grad)
   return grad * 2 --> function backward
end
local net, x = Net(), torch.ones(4, 3):requires_grad_()
net.linear:register_forward_hook(function(module, inputs, output)
   local total = output:sum():item() --> forward hook
end)
net:register_full_backward_hook(function(module, grad_input, grad_output)
   local seen = grad_output[1] or grad_output --> module hook
end)
local y = Twice:apply(net(x))
y:register_hook(function(grad)
   return grad * 3 --> tensor hook
end)
net.linear.weight:register_post_accumulate_grad_hook(function(parameter)
   local norm = parameter.grad:norm():item() --> accumulated
end)
y:sum():backward()
print(("%.17g %.17g"):format(x.grad:sum():item(), net.linear.weight.grad:sum():item()))
]]

-- Returns a table that maps each mark in the program's text to the mark's line number.
local function lines_of(text)
   local lines, n = {}, 0
   for line in text:gmatch "([^\n]*)\n" do
      n = n + 1
      local mark = line:match "%-%-> (.*)$"
      if mark then lines[mark] = n end
   end
   return lines
end

local function connect(pipe, socket)
   local pending = ""
   local program_side = {}
   -- Returns the next line that the program sends, or nil if the connection has ended.
   function program_side.hear()
      while not pending:find "\n" do
         local more = socket:take(seconds)
         if more == nil then return nil end
         assert(more ~= "", "the program says nothing")
         pending = pending .. more
      end
      local line, rest = pending:match "^([^\n]*)\n(.*)$"
      pending = rest
      return line
   end
   -- Reads a line with a number n, then reads the n bytes that the program sends after it.
   function program_side.hear_bytes(n)
      while #pending < n do pending = pending .. assert(socket:take(seconds)) end
      local text = pending:sub(1, n)
      pending = pending:sub(n + 1)
      return text
   end
   function program_side.ask(command)
      assert(socket:send(command .. "\n", seconds))
      return program_side.hear()
   end
   function program_side.output()
      socket:close()
      local text = pipe:read "a"
      pipe:close()
      return text
   end
   return program_side
end

-- Runs the program, and acts as its debugger meanwhile. `debugger` is the module that the program loads.
local function debugged(debugger, lines, fn)
   shell.with_folder(function(folder)
      shell.write(folder .. "/program.lua", program)
      shell.write(folder .. "/stub.lua", debugger)
      local listener = assert(torch._listen "127.0.0.1")
      local pipe = assert(io.popen(("DEBUG_STUB=%s/stub.lua DEBUG_PORT=%d DEBUG_LINES=%s %s %s 2>&1")
         :format(folder, listener:port(), shell.quote(table.concat(lines, " ")), shell.start(),
            folder .. "/program.lua")))
      local socket = assert(listener:accept(seconds), "the program does not connect")
      fn(connect(pipe, socket), shell.ok(shell.start() .. " " .. folder .. "/program.lua"), folder)
      listener:close()
   end)
end

describe("a debugger in Lua", function()
   local at = lines_of(program)

   it("stops in forward, in hooks and in functions that backward calls", function()
      local all = {}
      for _, line in pairs(at) do all[#all + 1] = line end
      debugged(stub, all, function(program_side, alone)
         local stops, next_stop = {}, program_side.hear()
         while next_stop do
            stops[#stops + 1] = math.tointeger(next_stop:match "^%d+")
            next_stop = program_side.ask "GO"
         end
         assert.same({at["forward"], at["forward hook"], at["function forward"], at["tensor hook"],
            at["function backward"], at["accumulated"], at["module hook"]}, stops)
         -- a run in single steps gives the same bits as a run without a debugger
         assert.equal(alone, program_side.output())
      end)
   end)

   it("reads variables, evaluates expressions and shows the whole stack", function()
      debugged(stub, {at["forward"], at["tensor hook"]}, function(program_side, alone)
         assert.equal(at["forward"], math.tointeger(program_side.hear():match "^%d+"))
         assert.equal("12.0", program_side.ask "EVAL x:sum():item()")
         assert.equal("Net", program_side.ask "EVAL torch.type(self)")
         assert.matches("program.lua:" .. at["forward"], program_side.ask "STACK", 1, true)
         local stop = program_side.ask "STEP"
         -- the debugger also steps into the functions that `forward` calls
         assert.matches("^" .. at["forward hook"], stop)
         assert.equal("4", program_side.ask "EVAL output:size(1)")
         assert.equal(at["tensor hook"], math.tointeger(program_side.ask "GO":match "^%d+"))
         assert.equal("1.0", program_side.ask "EVAL grad:max():item()")
         local stack = program_side.ask "STACK"
         assert.matches("program.lua:" .. at["tensor hook"], stack, 1, true)
         assert.matches("backward", stack, 1, true)
         -- an error in an evaluated expression changes nothing in the program
         assert.equal("false", program_side.ask "EVAL pcall(error, 'mine')")
         assert.is_nil(program_side.ask "GO")
         assert.equal(alone, program_side.output())
      end)
   end)

   it("may be MobDebug, with breakpoints, steps and values in forward and backward hooks", function()
      if select(2, shell.run(shell.start() .. " -e 'require [[mobdebug]]'")) ~= 0 then
         return pending "no mobdebug"
      end
      local start <const> = 'require("mobdebug").start("127.0.0.1", os.getenv "DEBUG_PORT")'
      debugged(start, {}, function(program_side, alone, folder)
         local function go(command)
            assert.equal("200 OK", program_side.ask(command))
            return program_side.hear()
         end
         -- Evaluates a chunk in the stopped program. Returns its results as texts, such as {"12.0"}.
         local function eval(chunk)
            local size = program_side.ask("EXEC " .. chunk):match "^200 OK (%d+)$"
            return load(program_side.hear_bytes(math.tointeger(size)))()
         end
         assert.equal("200 OK", program_side.ask("BASEDIR " .. folder .. "/"))
         for _, line in pairs(at) do assert.equal("200 OK", program_side.ask("SETB program.lua " .. line)) end
         assert.equal("202 Paused program.lua " .. at["forward"], go "RUN")
         assert.same({"12", '"Net"'}, eval "return x:sum():item(), torch.type(self)")
         -- the debugger steps into the layer that `forward` calls
         assert.matches("nn/modules/Module.lua", go "STEP")
         assert.matches("program.lua " .. at["forward hook"], go "RUN")
         assert.same({"4"}, eval "return output:size(1)")
         local size = program_side.ask "EXEC return no.such":match "^401 Error in %a+ (%d+)$"
         assert.matches("attempt to index", program_side.hear_bytes(math.tointeger(size)))
         assert.matches("program.lua " .. at["function forward"], go "RUN")
         assert.matches("program.lua " .. at["tensor hook"], go "RUN")
         assert.same({"1"}, eval "return grad:max():item()")
         local stack = program_side.ask "STACK"
         assert.matches('"backward"', stack, 1, true)
         -- the stack includes y, a variable of the main chunk
         assert.matches("grad_fn=<TwiceBackward>", stack, 1, true)
         assert.matches("program.lua " .. at["function backward"], go "RUN")
         assert.same({"3"}, eval "return grad:max():item()")
         assert.equal("200 OK", program_side.ask("DELB program.lua " .. at["accumulated"]))
         assert.matches("program.lua " .. at["module hook"], go "RUN")
         assert.equal("200 OK", program_side.ask "RUN")
         assert.is_nil(program_side.hear())
         -- a run in single steps gives the same bits as a run without a debugger
         assert.equal(alone, program_side.output())
      end)
   end)
end)
