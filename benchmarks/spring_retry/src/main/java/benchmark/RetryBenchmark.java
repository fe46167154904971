package benchmark;

import java.io.BufferedOutputStream;
import java.io.PrintStream;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.kafka.annotation.BackOff;
import org.springframework.kafka.annotation.EnableKafka;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.annotation.RetryableTopic;
import org.springframework.kafka.config.ConcurrentKafkaListenerContainerFactory;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaAdmin;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.retrytopic.RetryTopicConfigurationSupport;
import org.springframework.scheduling.TaskScheduler;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;

/**
 * Fails each message once, lets @RetryableTopic bring it back, and prints when the attempts were.
 *
 * <p>System properties: bootstrap, group, topic, delay (ms), messages, warmUp, and
 * seekAfterError, as in DefaultErrorHandler: true is its default. Prints "ready" when the first
 * warmUp messages have come back, and at the end a line for each message: its value and the
 * microseconds at which its two attempts began.
 */
@Configuration
@EnableKafka
public class RetryBenchmark extends RetryTopicConfigurationSupport {

    private static final String BOOTSTRAP = System.getProperty("bootstrap");
    private static final int MESSAGES = Integer.getInteger("messages");
    private static final int WARM_UP = Integer.getInteger("warmUp");

    private static final boolean SEEKS = Boolean.getBoolean("seekAfterError");

    private static final Map<String, Long> first = new ConcurrentHashMap<>();
    private static final Map<String, Long> second = new ConcurrentHashMap<>();
    private static final CountDownLatch warm = new CountDownLatch(WARM_UP);
    private static final CountDownLatch all = new CountDownLatch(MESSAGES);

    public static void main(String[] arguments) throws InterruptedException {
        try (var context = new AnnotationConfigApplicationContext(RetryBenchmark.class)) {
            warm.await();
            System.out.println("ready");
            all.await();
        }
        try (var out = new PrintStream(new BufferedOutputStream(System.out))) {
            second.forEach((value, at) -> out.println(value + " " + first.get(value) + " " + at));
        }
    }

    @Override
    protected void configureCustomizers(CustomizersConfigurer configurer) {
        configurer.customizeErrorHandler(handler -> handler.setSeekAfterError(SEEKS));
    }

    @RetryableTopic(
            attempts = "2",
            backOff = @BackOff(delayString = "${delay}"),
            numPartitions = "4",
            kafkaTemplate = "template")
    @KafkaListener(topics = "${topic}", groupId = "${group}")
    public void handle(ConsumerRecord<String, String> record) {
        long now = ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now());
        if (first.putIfAbsent(record.value(), now) == null) {
            throw new IllegalStateException("down");
        }
        second.put(record.value(), now);
        warm.countDown();
        all.countDown();
    }

    @Bean
    public ConcurrentKafkaListenerContainerFactory<String, String> kafkaListenerContainerFactory() {
        var factory = new ConcurrentKafkaListenerContainerFactory<String, String>();
        factory.setConsumerFactory(new DefaultKafkaConsumerFactory<>(
                Map.of(
                        "bootstrap.servers", BOOTSTRAP,
                        "auto.offset.reset", "earliest",
                        "fetch.max.wait.ms", 100),
                new StringDeserializer(),
                new StringDeserializer()));
        return factory;
    }

    @Bean
    public KafkaTemplate<String, String> template() {
        // Each message is awaited before the next is sent: to linger would only delay it.
        return new KafkaTemplate<>(new DefaultKafkaProducerFactory<>(
                Map.of("bootstrap.servers", BOOTSTRAP, "linger.ms", 0),
                new StringSerializer(),
                new StringSerializer()));
    }

    @Bean
    public KafkaAdmin admin() {
        return new KafkaAdmin(Map.of("bootstrap.servers", BOOTSTRAP));
    }

    @Bean
    public TaskScheduler scheduler() {
        return new ThreadPoolTaskScheduler();
    }
}
