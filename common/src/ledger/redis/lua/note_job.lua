-- Notes the summary of a job in the index. Returns 1; 0 where what is known of it stands.
-- A value is the order and the summary with a colon between them, and a mark before it where the end of this start was
-- counted; an empty one is that of a job that was removed.
-- ARGV: job, order, summary, whether it was found in storage a while ago (0, 1), time to live in seconds, the name of the count
-- of how it ended ('' before that), when it ended and how long an end is counted of a job that is not known, both in
-- microseconds
local jobs, changed, removed, index, ended = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local known = redis.call('HGET', jobs, ARGV[1])
if known and ARGV[4] == '1' then return 0 end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local order, is_counted = nil, false
if known and known ~= '' then
  order = tonumber(string.match(known, '^%d+'))
  if order > tonumber(ARGV[2]) then return 0 end
  is_counted = order == tonumber(ARGV[2]) and string.match(known, '^%d+!') ~= nil
end
if ARGV[6] ~= '' and not is_counted then
  is_counted = true
  local is_late = now - tonumber(ARGV[7]) > tonumber(ARGV[8])
  local was_active = order and order < tonumber(ARGV[2])
  if ARGV[4] ~= '1' and known ~= '' and (was_active or not is_late) then
    redis.call('HINCRBY', ended, ARGV[6], 1)
  end
end
local value = ARGV[2] .. (is_counted and '!:' or ':') .. ARGV[3]
if known ~= value then
  -- The time makes numbers grow over the loss of all keys.
  local number = math.max(now, tonumber(redis.call('HGET', index, 'last') or '0') + 1)
  redis.call('HSET', index, 'last', string.format('%.0f', number))
  redis.call('HSET', jobs, ARGV[1], value)
  redis.call('ZADD', changed, number, ARGV[1])
  redis.call('ZREM', removed, ARGV[1])
end
for _, key in ipairs(KEYS) do redis.call('EXPIRE', key, ARGV[5]) end
return 1
