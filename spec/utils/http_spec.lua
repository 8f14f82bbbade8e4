-- Tests tlua.utils.http, the HTTP client, with servers that send damaged answers.

local shell = require "spec.support.shell"
local http = require "tlua.utils.http"

describe("an answer", function()
   -- Returns the error that the client raises if the server's first answer is `first`, and all later answers are
   -- `again`.
   local function failure(first, again)
      return shell.with_folder(function(folder)
         shell.write(folder .. "/server.lua", ([[
            local listener = assert(torch._listen "127.0.0.1")
            print(listener:port())
            io.stdout:flush()
            local socket = listener:accept(600)
            socket:take(60)
            local more = socket:send(%q, 600)
            while %q ~= "" and more do more = socket:send(%q, 600) end
            socket:close()]]):format(first, again or "", (again or ""):rep(1000)))
         local pipe <close> = assert(io.popen(("exec %s %s/server.lua"):format(shell.start(), folder)))
         local port = math.tointeger(tonumber(pipe:read "l"))
         local ok, answer = pcall(http.request, "GET", "http://127.0.0.1:" .. port)
         return ok and answer.body or answer
      end)
   end
   local head <const> = "HTTP/1.1 200 X\r\n"

   it("may arrive in pieces, with or without its length", function()
      assert.equal("abc", failure(head .. "Content-Length: 3\r\n\r\nabcd"))
      assert.equal("abcd", failure(head .. "\r\nabcd"))
      assert.equal("abcd", failure(head .. "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\n"))
   end)

   it("is abandoned if it does not end", function()
      local too_long <const> = "the answer is too long: more than the allowed %d+ bytes$"
      assert.matches(too_long, failure(head, "X-Header: abcdefghijklmnop\r\n"))
      assert.matches("a damaged answer: a line has more than 65536 bytes$", failure(head, "abcdefghijklmnop"))
      assert.matches(too_long, failure(head .. "\r\n", "abcdefghijklmnop"))
      assert.matches(too_long, failure(head .. "Transfer-Encoding: chunked\r\n\r\n", "10\r\nabcdefghijklmnop\r\n"))
   end)

   it("is damaged if its length is not a number", function()
      for _, length in ipairs {"-5", "1.5", "1e2", "nan", "99999999999999999999", "x"} do
         assert.matches(('a damaged answer: Content-Length: expected a number of bytes, got "%s"'):format(length),
            failure(head .. "Content-Length: " .. length .. "\r\n\r\nabc"), 1, true)
      end
      assert.matches("the answer is too long: more than the allowed 16777216 bytes$",
         failure(head .. "Content-Length: 999999999\r\n\r\nabc"))
      assert.matches("the answer ends early, after 40 bytes$", failure(head .. "Content-Length: 9\r\n\r\nabc"))
      assert.matches('a damaged answer: expected the length of a chunk, got "%-1"$',
         failure(head .. "Transfer-Encoding: chunked\r\n\r\n-1\r\nabc\r\n"))
      assert.matches('the answer is not HTTP: it begins with "hello"$', failure "hello\r\n")
   end)
end)
