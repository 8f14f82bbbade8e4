-- Tests examples/hosts. For each host that is installed, runs the script run.sh and checks the answers.
local shell = require "spec.support.shell"

shell.start()
local sanitized <const> = os.getenv "SPEC_SANITIZED" == "1"

-- Runs the script of a host, and returns its output.
local function run(host, arguments)
   local output, status = shell.run(("sh examples/hosts/%s/run.sh %s 2>&1"):format(host, arguments))
   assert.equal(0, status, output)
   return output
end

-- Returns whether the shell finds all of these programs or files.
local function has(...)
   for _, name in ipairs {...} do
      local _, status = shell.run(("PATH=$PATH:/usr/sbin; command -v %s || test -e %s"):format(name, name))
      if status ~= 0 then return false end
   end
   return true
end

it("lighttpd recognises digits, learns one, and refuses a bad request", function()
   if sanitized then return pending "the host would need the sanitizer's options" end
   if not has("lighttpd", "curl", "/usr/lib/lighttpd/mod_magnet.so") then
      return pending("lighttpd, its module for Lua, or curl is not installed")
   end
   local output = run("lighttpd", "")
   local right = tonumber(output:match "right: (%d+) of 360")
   assert.is_true(right > 300, output)
   assert.matches("before: %d", output)
   assert.matches("after: 7, loss 0%.000", output)
   assert.matches("line 1 has 3 numbers; expected 64 grey levels", output, 1, true)
end)

it("inetd starts a process for each connection, which recognises digits and ends", function()
   if sanitized then return pending "the host would need the sanitizer's options" end
   if not has("inetd", "curl") then return pending "inetd or curl is not installed" end
   local output = run("inetd", "")
   local right = tonumber(output:match "right: (%d+) of 360")
   assert.is_true(right > 300, output)
   assert.matches("20 processes: 20 %d\n", output)
   assert.matches("line 1 has 3 numbers; expected 64 grey levels", output, 1, true)
end)

it("PostgreSQL reads digits in a query, and survives wrong numbers and a damaged program", function()
   if sanitized then return pending "the host would need the sanitizer's options" end
   if not has("/usr/lib/postgresql/15/bin/postgres", "/usr/include/postgresql/15/server/postgres.h") then
      return pending "PostgreSQL or its headers are not installed"
   end
   local output = run("postgresql", "")
   local right = tonumber(output:match "right: (%d+) of 360")
   assert.is_true(right > 300, output)
   assert.matches("tlua_run: numbers: expected 64, got 3", output, 1, true)
   assert.matches("ERROR:  tlua_run: tensor \"5.weight\": expected", output, 1, true)
   assert.matches("the server goes on: 360", output, 1, true)
end)

it("clingo asks a network for the legs of the fastest tour", function()
   if sanitized then return pending "the host would need the sanitizer's options" end
   if not has "clingo" then return pending "clingo is not installed" end
   local output = run("clingo", "")
   local wrong = tonumber(output:match "wrong by (%d+%.%d+) minutes")
   assert.is_true(wrong < 12, output)
   local legs, minutes = 0, tonumber(output:match "Optimization: (%d+)")
   for _ in output:gmatch "go%(%a,%a%)" do legs = legs + 1 end
   assert.equal(7, legs)
   -- the drive alone takes 257 minutes at 80 km/h, so every right answer is longer
   assert.is_true(minutes > 257 and minutes < 520, output)
   assert.matches("OPTIMUM FOUND", output, 1, true)
end)

it("Dovecot refuses a right password from an odd network", function()
   if sanitized then return pending "the host would need the sanitizer's options" end
   if not has("dovecot", "/usr/lib/dovecot/modules/auth/libauthdb_lua.so") then
      return pending "Dovecot or its Lua is not installed"
   end
   local output = run("dovecot", "")
   assert.matches([[
alice from 10.1.20.30 by imap: welcome
alice from 10.1.20.30 by imap: refused
alice from 203.0.113.7 by imap: refused
bob from 192.168.7.7 by smtp: welcome
mallory from 10.1.20.30 by imap: refused
]], output, 1, true)
   assert.is_true(tonumber(output:match "odd by ([%d.]+)") < 0.2, output)
   local _, lines = output:gsub("login of %a+ is odd", "")
   assert.equal(4, lines, output) -- mallory is unknown
end)

it("the robot balances its pole without Lua", function()
   if sanitized then return pending "the host would need the sanitizer's options" end
   local output = run("robot", "2")
   assert.matches("the controller took", output, 1, true)
   assert.matches("\nbalanced\n", output, 1, true)
   local lean = tonumber(output:match "by (%d+%.%d+) rad in the last quarter")
   assert.is_true(lean < 0.05, output)
end)

it("the game's creatures learn to walk within its frames", function()
   if sanitized then return pending "the host would need the sanitizer's options" end
   if not has("/usr/include/chipmunk/chipmunk.h", "/usr/include/SDL2/SDL.h") then
      return pending "Chipmunk or SDL is not installed"
   end
   shell.with_folder(function(folder)
      local output = run("game", "3700 " .. shell.quote(folder .. "/walk.bmp"))
      assert.is_true(tonumber(output:match "round 10: the mean came (%-?%d+) far") > 20, output)
      assert.matches("a call of the script took %d+ us", output)
      local file <close> = assert(io.open(folder .. "/walk.bmp", "rb"))
      assert.is_true(#file:read "a" > 960 * 360 * 3, "the picture is too small")
   end)
end)

it("the spiders learn to walk in three dimensions", function()
   if sanitized then return pending "the host would need the sanitizer's options" end
   if not has "/usr/include/ode/ode.h" then return pending "ODE is not installed" end
   shell.with_folder(function(folder)
      local output = run("spider", "10 " .. shell.quote(folder .. "/spider.ppm"))
      local function mean(round)
         return tonumber(output:match(("round %d: the mean came (%%-?%%d+%%.%%d+) m far"):format(round)))
      end
      assert.is_true(mean(10) > mean(1) + 0.2, output)
      assert.matches("a frame of the script took %d+ us", output)
      local file <close> = assert(io.open(folder .. "/spider.ppm", "rb"))
      local picture = file:read "a"
      assert.equal(#"P6\n800 300\n255\n" + 3 * 800 * 300, #picture)
      assert.is_true(picture:find("\200\60\30", 1, true) ~= nil, "the first spider is not in the picture")
   end)
end)

it("an emulator's script learns to play a game", function()
   if sanitized then return pending "the host would need the sanitizer's options" end
   if not has "/usr/include/mgba/script/context.h" then return pending "libmgba is not installed" end
   local output = run("emulator", "3000")
   local function nearer(frame) return tonumber(output:match(("frames %d to %%d+: nearer in (%%d+)"):format(frame))) end
   assert.is_true(nearer(2401) > nearer(1) and nearer(2401) > 400, output)
end)
